// `fovea tokenize`: what a tokenizer makes of texts; and tokenizers made from a text.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/output.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/text_lines.h"
#include "fovea/io/json.h"
#include "fovea/text/tokenizer.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

struct Tokenize {
  std::string tokenizer_path, model_path, out;
  std::vector<std::string> texts;  // or files to train on
  std::vector<std::string> special;
  static constexpr int64_t kNotGiven = INT64_MIN;
  int64_t bpe = kNotGiven;
  bool characters = false, json = false, json_input = false, plain = false;

  void declare(CommandLine& line) {
    line.option("-t,--tokenizer", "DIR|FILE", tokenizer_path, "tokenizer.json, or the folder it is in");
    line.option("-m,--model", "DIR", model_path, "the tokenizer of a model folder");
    line.flag("--json", json, "one JSON object a text: the columns of its encoding, and what they decode to");
    line.flag("--json-input", json_input,
              "lines of standard input are JSON strings, so that a text may hold line ends");
    line.flag("--plain", plain, "without the special tokens around a text");
    line.option("--train-bpe", "N", bpe, "make a byte-level BPE tokenizer of N tokens from text files");
    line.flag("--train-characters", characters, "make a tokenizer of single characters from text files");
    line.option("--special", "TOKEN", special, "special token of a new tokenizer (may be repeated)");
    line.option("-o,--out", "DIR", out, "folder that a new tokenizer is written to");
    line.positional("TEXT|FILE", texts, "texts; without: lines of standard input. For --train-…: files");
  }

  int run() {
    if (bpe != kNotGiven || characters) return train();
    FOVEA_CHECK_CONFIG(tokenizer_path.empty() != model_path.empty(), "wanted one of --tokenizer and --model");
    FOVEA_CHECK_CONFIG(out.empty(), "--out is for --train-bpe and --train-characters");
    FOVEA_CHECK_CONFIG(!json_input || texts.empty(), "--json-input reads standard input; there are texts too");
    const Tokenizer tokenizer = Tokenizer::load(tokenizer_path.empty() ? model_path : tokenizer_path);
    int64_t number = 0;
    for (const std::string& text : texts) show(tokenizer, text, detail::concat("text ", ++number));
    if (!texts.empty()) return 0;
    for (std::string line; next_line(std::cin, line, number);) {
      const std::string source = detail::concat("standard input, line ", number);
      show(tokenizer, json_input ? unquoted(line, source) : line, source);
    }
    return 0;
  }

  static std::string unquoted(const std::string& line, const std::string& source) {
    const nlohmann::json value = parse_json(line, source);
    FOVEA_CHECK_INPUT(value.is_string(), source, ": wanted a JSON string, got ", value.type_name());
    return value.get<std::string>();
  }

  void show(const Tokenizer& tokenizer, const std::string& text, const std::string& source) {
    check_utf8(text, source);
    const Encoding encoded = tokenizer.encode(text, {.add_special_tokens = !plain});
    if (json) {
      output().json({{"ids", encoded.ids},
                     {"tokens", encoded.tokens},
                     {"offsets", encoded.offsets},
                     {"word_ids", encoded.word_ids},
                     {"type_ids", encoded.type_ids},
                     {"attention_mask", encoded.attention_mask},
                     {"special_tokens_mask", encoded.special_tokens_mask},
                     {"decoded", tokenizer.decode(encoded.ids)}});
      return;
    }
    output().line(detail::concat(text, "  (", encoded.ids.size(), encoded.ids.size() == 1 ? " token)" : " tokens)"));
    for (size_t i = 0; i < encoded.ids.size(); ++i) {
      const std::string id = std::to_string(encoded.ids[i]);
      const auto [begin, end] = encoded.offsets[i];
      const size_t columns = count_code_points(encoded.tokens[i]);
      output().line(std::string(id.size() < 8 ? 8 - id.size() : 0, ' ') + id + "  " + encoded.tokens[i] +
                    std::string(columns < 20 ? 20 - columns : 1, ' ') + detail::concat(begin, "…", end));
    }
  }

  int train() const {
    FOVEA_CHECK_CONFIG(bpe == kNotGiven || !characters, "--train-bpe and --train-characters exclude each other");
    FOVEA_CHECK_CONFIG(tokenizer_path.empty() && model_path.empty(),
                       "a tokenizer is made anew: neither --tokenizer nor --model");
    FOVEA_CHECK_CONFIG(!texts.empty(), "no text files to make a tokenizer from");
    FOVEA_CHECK_CONFIG(!out.empty(), "--out is missing: the folder that the tokenizer is written to");
    FOVEA_CHECK_CONFIG(characters || bpe >= 256, "--train-bpe is ", bpe, ", wanted 256 (one token a byte) or more");
    std::vector<std::string> files;
    for (const std::string& path : texts) files.push_back(read_texts({path}));
    const Tokenizer tokenizer = characters ? of_characters(files) : of_pairs(files);
    tokenizer.save(out);
    output().line(detail::concat(out, ": ", tokenizer.vocab_size(), " tokens"));
    return 0;
  }

  Tokenizer of_characters(const std::vector<std::string>& files) const {
    std::string all;
    for (const std::string& text : files) all += text;
    return train_characters(all, {.special_tokens = special});
  }

  Tokenizer of_pairs(const std::vector<std::string>& files) const {
    return train_bpe({files.begin(), files.end()}, {.vocab_size = bpe, .special_tokens = special});
  }
};

}  // namespace

void register_commands_tokenize(CommandsRegistry& registry) {
  registry.add("tokenize", command<Tokenize>("what a tokenizer makes of texts; new tokenizers",
                                             "fovea tokenize --model runs/kjv/best \"In the beginning\"\n"
                                             "fovea tokenize --train-bpe 8000 text.txt -o tokenizers/text"));
}

}  // namespace fovea
