// A Llama-like model from its folder and back: grouped heads, rotary positions stretched as Llama 3.1 does it, a cache,
// and Mistral's window. The folder is made here; one from Hugging Face loads by the same line.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

int main() {
  at::manual_seed(1);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fovea_example_llama";
  const RopeScaling scaling{.type = "llama3", .factor = 8, .original_positions = 16};
  const LlamaConfig config{.vocab_size = 50,
                           .width = 32,
                           .hidden = 96,
                           .layers = 2,
                           .heads = 4,
                           .kv_heads = 2,  // two query heads share a key head
                           .positions = 128,
                           .rope_base = 500000,
                           .rope_scaling = scaling,
                           .initializer_range = 0.3};
  const Llama made(config);
  save_pretrained(*made, folder);

  const GenerativeModel llama = load_generative_model(folder);
  std::printf("%s: %ld parameters, %ld positions\n", llama->type().c_str(), long(llama->parameter_count()),
              long(llama->max_positions()));
  const at::NoGradGuard no_grad;
  const Tensor ids = at::randint(50, {1, 40}, at::kLong);
  const Tensor whole = llama->forward({.ids = ids});  // [1, 40, 50]
  claim(at::equal(whole, made->forward({.ids = ids})), "loaded, it has the logits it was saved with");

  // Decoding keeps keys and values: a prompt at once, then a token at a time.
  DecoderState state = llama->begin();
  std::vector<Tensor> logits{llama->step(ids.slice(1, 0, 30), state)};
  for (int64_t t = 30; t < 40; ++t) logits.push_back(llama->step(ids.slice(1, t, t + 1), state));
  claim(difference(at::cat(logits, 1), whole) < 1e-4, "ten cached steps give the logits of the whole text");
  claim(state.self[0].key().size(1) == 2, "the cache holds two heads, not four");

  // Beams: the search never ends with a less probable text than the greedy one.
  const std::vector<std::vector<int64_t>> prompts{{1, 2, 3}, {4}};
  const auto greedy = generate(*llama, prompts, {.max_new_tokens = 12});
  const auto beams = generate(*llama, prompts, {.max_new_tokens = 12, .beams = 16, .length_penalty = 0});
  for (size_t row = 0; row < prompts.size(); ++row)
    std::printf("log-probability: greedy %.2f, sixteen beams %.2f\n", greedy.rows[row].score, beams.rows[row].score);
  claim(beams.rows[0].score >= greedy.rows[0].score, "sixteen beams find a text at least as probable");

  // Mistral is the same file with a window: a token sees the newest eight, in every layer.
  LlamaConfig windowed = config;
  windowed.type = "mistral", windowed.window = 8, windowed.layers = 1;
  const Llama mistral(windowed);
  Tensor other = ids.clone();
  other[0][10] = (other[0][10] + 1) % 50;
  const Tensor moved = (mistral->forward({.ids = ids}) - mistral->forward({.ids = other})).abs().amax(2)[0].gt(0);
  claim(moved.sum().item<int64_t>() == 8 && moved.slice(0, 10, 18).all().item<bool>(),
        "through a window of 8, another token 10 changes tokens 10 … 17 only");
  std::filesystem::remove_all(folder);
}
