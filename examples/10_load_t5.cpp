// A small T5 learns to turn words round, is saved as a folder, and answers from there: text to text, by beam search.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

std::string random_word() {
  std::string word;
  for (const int64_t letter : {0, 1, 2, 3, 4})
    if (letter < 2 || at::rand({}).item<double>() < 0.7)
      word += char('a' + at::randint(8, {}, at::kLong).item<int64_t>());
  return word;
}
std::string turned_round(const std::string& word) { return {word.rbegin(), word.rend()}; }

int main() {
  at::manual_seed(1);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fovea_example_t5";
  const Tokenizer tokenizer = train_characters("abcdefgh", {.special_tokens = {"<pad>", "</s>"}});
  const TokenId pad = TokenId(*tokenizer.pad_id()), end = TokenId(*tokenizer.eos_id());
  const auto tokens = [&](const std::string& text) {
    const auto ids = tokenizer.ids(text);
    return std::vector<TokenId>(ids.begin(), ids.end());
  };
  std::vector<TokenPair> pairs(4000);
  for (TokenPair& pair : pairs) {
    const std::string word = random_word();
    pair = {tokens(word), tokens(turned_round(word))};
  }
  // A target begins with padding, as T5's do. Gate, logits unscaled and a projection of its own: version 1.1.
  const PairOptions batches{.buckets = {.batch_size = 64, .seed = 1}, .begin = pad, .end = end, .pad = pad};
  Loader loader(std::make_shared<TextPairs>(pairs, batches));
  T5 model(T5Config{.vocab_size = tokenizer.end_id(),
                    .width = 48,
                    .head_width = 12,
                    .hidden = 96,
                    .layers = 2,
                    .decoder_layers = 2,
                    .heads = 4,
                    .activation = "gelu_new",
                    .gated = true,
                    .dropout = 0,
                    .tied = false,
                    .scale_logits = false,
                    .roles = {.eos = {end}, .pad = pad}});
  AdamW optimizer(distinct_parameters(*model), {.weight_decay = 0});
  for (int64_t step = 0; step < 400; ++step) {
    const Tensor loss = model->loss(loader.next()).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.clip_gradients();
    optimizer.step(3e-3 * (1 - double(step) / 400));
    if (step % 80 == 0) std::printf("step %3ld  loss %.3f\n", long(step), loss.item<double>());
  }
  save_pretrained(*model, folder);
  tokenizer.save(folder);

  const Seq2Seq t5 = Seq2Seq::load(folder);
  GenerateOptions options = t5.defaults;
  options.beams = 4;
  int right = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string word = random_word(), answer = t5.generate(word, options);
    right += answer == turned_round(word);
    if (i < 4) std::printf("%s -> %s\n", word.c_str(), answer.c_str());
  }
  claim(right >= 18, "of twenty words it turns nearly all round");
  claim(t5.generate_all({"abc", "hgfed"}, options)[1] == t5.generate("hgfed", options),
        "in a batch or alone: the same");
  std::filesystem::remove_all(folder);
}
