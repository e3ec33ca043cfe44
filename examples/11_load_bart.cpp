// BART from its folder: generation_config.json says how it writes, here as summaries are made: four beams, a forced
// first and last token, no run of three tokens twice. The folder is made here; one from Hugging Face loads by the same
// line.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <set>

#include "show.h"

using namespace fovea;

int main() {
  at::manual_seed(5);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fovea_example_bart";
  const Tokenizer tokenizer =
      train_characters("abcdefghijklmnopqrstuvwxyz ", {.special_tokens = {"<s>", "<pad>", "</s>"}});
  const int64_t bos = *tokenizer.bos_id(), pad = *tokenizer.pad_id(), eos = *tokenizer.eos_id();
  const Bart made(BartConfig{.vocab_size = tokenizer.end_id(),
                             .positions = 64,
                             .width = 24,
                             .encoder_layers = 2,
                             .decoder_layers = 2,
                             .encoder_heads = 4,
                             .decoder_heads = 4,
                             .encoder_hidden = 48,
                             .decoder_hidden = 48,
                             .init_std = 0.4,
                             .roles = {.bos = bos, .eos = {eos}, .pad = pad, .decoder_start = eos}});
  save_pretrained(*made, folder);
  tokenizer.save(folder);
  write_file(folder / "generation_config.json",
             "{\"num_beams\": 4, \"max_length\": 24, \"min_length\": 12, \"no_repeat_ngram_size\": 3, "
             "\"early_stopping\": true, "
             "\"length_penalty\": 2.0, \"forced_bos_token_id\": " +
                 std::to_string(bos) + ", \"forced_eos_token_id\": " + std::to_string(eos) + "}");

  const Seq2Seq bart = Seq2Seq::load(folder);
  const std::string article = "a tower stands on a rock and a rock stands in the water";
  std::printf("untrained, it sums up \"%s\" as \"%s\"\n", article.c_str(), bart.generate(article).c_str());

  // The four best, and what the folder asked for.
  GenerateOptions options = bart.defaults;
  options.results = 4;
  const auto source = source_ids(bart.tokenizer, options, article);
  const GenerateResult best = generate(*bart.model, {source}, options, &bart.tokenizer);
  bool forced = true, sorted = true, fresh = true, long_enough = true;
  for (size_t i = 0; i < best.rows.size(); ++i) {
    const auto& tokens = best.rows[i].tokens;
    std::printf("score %7.3f  %s\n", best.rows[i].score, best.rows[i].text.c_str());
    forced = forced && tokens.front() == bos && tokens.back() == eos;
    sorted = sorted && (i == 0 || best.rows[i].score <= best.rows[i - 1].score);
    long_enough = long_enough && tokens.size() >= 11 && tokens.size() <= 23;  // and the token that opened the target
    std::set<std::vector<int64_t>> runs;
    for (size_t t = 0; t + 3 <= tokens.size(); ++t)
      fresh = runs.insert({tokens.begin() + int64_t(t), tokens.begin() + int64_t(t) + 3}).second && fresh;
  }
  claim(best.rows.size() == 4 && sorted, "four answers, the best first");
  claim(forced, "each begins and ends as it must");
  claim(fresh, "no three tokens stand twice");
  claim(long_enough, "each is as long as the folder wants");
  claim(bart.generate(article) == best.rows[0].text, "generate() gives the best of them");
  std::filesystem::remove_all(folder);
}
