// Training as a loop one can read: a small GPT-2 learns a text letter by letter, then writes some of its own. The text
// is built in, or a file:
//
//   06_train_a_character_model [text.txt]
//
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <cmath>

#include "show.h"

using namespace fovea;

namespace {

constexpr std::string_view kText = R"(The lamp stands in the tower, and the tower stands on the rock.
The rock stands in the water, and the water moves all day.
All day the water carries the boats, and the boats carry the men.
The men carry the nets home, and the nets are full of light.
When the night comes to the water, the keeper climbs the stair.
The keeper lights the lamp again, and the lamp looks far away.
It looks at the boats on the water, it looks at the rock and the sand.
It looks at the men with the nets in the boats, and it brings them all to land.
The stair goes up to the lamp, and the stair goes down to the door.
The door looks out to the water, and the water comes to the shore.
The night goes over the tower, and the day comes over the sea.
The keeper puts out the lamp again and sleeps where the sleepers be.
)";

constexpr int64_t kContext = 48, kSteps = 450;

int run(const std::string& text) {
  const Tokenizer tokenizer = train_characters(text);
  const std::vector<int64_t> ids = tokenizer.ids(text);
  Loader loader(std::make_shared<TokenWindows>(std::vector<TokenId>(ids.begin(), ids.end()),
                                               WindowOptions{.context = kContext, .batch_size = 8, .seed = 1}));
  at::manual_seed(1);
  Gpt2 model(Gpt2Config{.vocab_size = tokenizer.end_id(),
                        .positions = kContext,
                        .width = 64,
                        .layers = 2,
                        .heads = 4,
                        .residual_dropout = 0,
                        .embedding_dropout = 0,
                        .attention_dropout = 0});
  AdamW optimizer(distinct_parameters(*model), {.learning_rate = 4e-3});
  const ScheduleOptions schedule{.name = "cosine", .warmup = 20};
  std::printf("%zu characters, %ld distinct; %ld parameters\n", ids.size(), long(tokenizer.vocab_size()),
              long(model->parameter_count()));

  double first = 0, mean = 0;  // nats a character; `mean` runs
  for (int64_t step = 0; step < kSteps; ++step) {
    const Tensor loss = model->loss(loader.next()).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.clip_gradients();
    optimizer.step(4e-3 * schedule_factor(schedule, step, kSteps));

    const double now = loss.item<double>();
    if (step == 0) first = mean = now;
    mean += (now - mean) / 10;
    if (step % 30 == 0 || step + 1 == kSteps)
      std::printf("step %4ld  loss %.3f  %s\n", long(step), mean,
                  std::string(size_t(std::max(0.0, 15 * mean)), '#').c_str());
  }

  model->eval();
  const CausalLM writer{model.ptr(), tokenizer};
  const std::string prompt = tokenizer.decode({ids.begin(), ids.begin() + 4});
  const std::string written = writer.generate(prompt, {.max_new_tokens = kContext - 4, .temperature = 0.5, .seed = 1});
  std::printf("\nit writes: %s%s\n\n", prompt.c_str(), written.c_str());
  claim(std::abs(first - std::log(double(tokenizer.vocab_size()))) < 0.5,
        "untrained, it guesses: the loss is ln(vocabulary)");
  claim(mean < 0.75 * first, "trained, it has lost a quarter of that or more");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count > 1 ? read_texts({arguments[1]}) : std::string(kText));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
