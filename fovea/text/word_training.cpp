// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/pre_tokenizer.h"
#include "fovea/text/tokenizer_file.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

class FrequencyCounter : public text::PieceSink {
 public:
  void take(const text::Piece& piece) override { ++counts_[std::string(piece.text)]; }
  // The most frequent first.
  std::vector<std::pair<std::string, int64_t>> sorted() const {
    std::vector<std::pair<std::string, int64_t>> out(counts_.begin(), counts_.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return out;
  }

 private:
  std::map<std::string, int64_t> counts_;
};

std::vector<std::pair<std::string, int64_t>> words_by_frequency(std::string_view text, const nlohmann::json& normalizer,
                                                                const nlohmann::json& splitter) {
  const auto clean = text::read_normalizer(normalizer, "normalizer");
  const auto split = text::read_pre_tokenizer(splitter, "pre_tokenizer");
  FrequencyCounter counter;
  while (!text.empty()) {  // line by line: a text at once would be in memory several times
    const size_t end = std::min(text.find('\n'), text.size());
    text::AlignedText line({text.substr(0, end)}, /*tracked=*/false);
    clean->apply(line);
    split->split(line.piece(), /*tracked=*/false, counter);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return counter.sorted();
}

}  // namespace

Tokenizer train_words(std::string_view text, const WordTrainingOptions& options) {
  check_utf8(text, "the text to train a tokenizer on");
  text::TokenizerFile file;
  file.source = "word tokenizer";
  auto& vocab = file.tables.vocab;
  file.top["added_tokens"] = nlohmann::json::array();
  std::map<std::string, bool> taken;
  std::vector<std::string> special = options.special_tokens;
  special.push_back(options.unk_token);
  for (const std::string& token : special) {
    FOVEA_CHECK_CONFIG(!token.empty(), "train_words: a special token is empty");
    FOVEA_CHECK_CONFIG(taken.emplace(token, true).second, "train_words: the special token \"", token,
                       "\" is given twice");
    check_utf8(token, "special token");
    file.top["added_tokens"].push_back(text::special_token_json(token, int64_t(vocab.size())));
    vocab.emplace_back(token, int64_t(vocab.size()));
  }
  FOVEA_CHECK_CONFIG(options.vocab_size > int64_t(vocab.size()), "train_words: vocab_size ", options.vocab_size,
                     " leaves no room for a word beside ", vocab.size(), " special tokens");
  file.top["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", nullptr},
                            {"lowercase", options.lowercase}};
  file.top["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  const auto words = words_by_frequency(text, file.top["normalizer"], file.top["pre_tokenizer"]);
  FOVEA_CHECK_INPUT(!words.empty(), "the text to train a tokenizer on is empty");
  for (const auto& [word, count] : words) {
    if (int64_t(vocab.size()) == options.vocab_size) break;
    if (taken.emplace(word, true).second) vocab.emplace_back(word, int64_t(vocab.size()));
  }
  file.top["model"] = {{"type", "WordPiece"},
                       {"unk_token", options.unk_token},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100}};
  file.top["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  return text::make_tokenizer(std::move(file));
}

Tokenizer enclose_texts(const Tokenizer& tokenizer, const std::string& first, const std::string& last) {
  using nlohmann::json;
  text::TokenizerFile file = text::parse_tokenizer_file(tokenizer.to_json(), "tokenizer");
  json tokens = json::object();
  for (const std::string* token : {&first, &last}) {
    if (token->empty()) continue;
    const auto id = tokenizer.token_to_id(*token);
    FOVEA_CHECK_CONFIG(id.has_value(), "enclose_texts: the tokenizer has no token \"", *token, "\"");
    json& entry = tokens[*token];
    entry["id"] = *token;
    entry["ids"].push_back(uint64_t(*id));
    entry["tokens"].push_back(*token);
  }
  const auto add = [](json& items, const char* kind, const std::string& id, uint64_t type) {
    if (id.empty()) return;
    json item;
    item[kind]["id"] = id;
    item[kind]["type_id"] = type;
    items.push_back(std::move(item));
  };
  json& out = file.top["post_processor"] = json::object();
  out["type"] = "TemplateProcessing";
  for (const char* key : {"single", "pair"}) {
    add(out[key], "SpecialToken", first, 0);
    add(out[key], "Sequence", "A", 0);
    add(out[key], "SpecialToken", last, 0);
  }
  add(out["pair"], "Sequence", "B", 1);
  add(out["pair"], "SpecialToken", last, 1);
  out["special_tokens"] = std::move(tokens);
  return text::make_tokenizer(std::move(file));
}

Tokenizer shorten_texts(const Tokenizer& tokenizer, int64_t max_length) {
  FOVEA_CHECK_CONFIG(max_length >= 1, "shorten_texts: max_length is ", max_length, ", wanted at least 1");
  text::TokenizerFile file = text::parse_tokenizer_file(tokenizer.to_json(), "tokenizer");
  file.top["truncation"] = {
      {"direction", "Right"}, {"max_length", max_length}, {"strategy", "LongestFirst"}, {"stride", 0}};
  return text::make_tokenizer(std::move(file));
}

}  // namespace fovea
