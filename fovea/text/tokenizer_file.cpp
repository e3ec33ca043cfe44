// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/tokenizer_file.h"

#include <algorithm>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/text/bpe.h"

namespace fovea::text {
namespace {

using json = nlohmann::json;

// Builds the document from the parser's events, the two tables aside: as JSON values they would cost ten times as much.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(TokenizerFile& file) : file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override {
    if (mode_ == kScored) return score(static_cast<double>(v));
    return mode_ == kVocab ? vocab_id(v) : value(v);
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (mode_ == kScored) return score(static_cast<double>(v));
    return mode_ == kVocab ? vocab_id(static_cast<int64_t>(std::min<number_unsigned_t>(v, INT64_MAX))) : value(v);
  }
  bool number_float(number_float_t v, const string_t&) override { return mode_ == kScored ? score(v) : value(v); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool string(string_t& v) override {
    if (mode_ == kMerges) {
      if (!v.starts_with("#version")) file_.tables.merges.push_back(split_merge(v, where("model.merges")));
      return true;
    }
    if (mode_ == kMergePair) {
      FOVEA_CHECK_INPUT(pair_.size() < 2, where("model.merges"), ": a merge of more than two tokens");
      pair_.push_back(std::move(v));
      return true;
    }
    if (mode_ == kScored && pair_.empty()) {
      pair_.push_back(std::move(v));
      return true;
    }
    return value(std::move(v));
  }

  bool key(string_t& v) override {
    if (mode_ == kVocab) {
      token_ = std::move(v);
      return true;
    }
    json& object = *stack_.back();
    FOVEA_CHECK_INPUT(!object.contains(v), file_.source, ": the key \"", v, "\" is given twice in one object");
    key_ = std::move(v);
    return true;
  }

  bool start_object(size_t) override {
    if (mode_ == kDocument && in_model("vocab")) return enter(kVocab);
    return open(json::object());
  }
  bool end_object() override { return mode_ == kVocab ? enter(kDocument) : close(); }

  bool start_array(size_t) override {
    if (mode_ == kDocument && in_model("merges")) return enter(kMerges);
    if (mode_ == kMerges) return enter(kMergePair);
    if (mode_ == kDocument && in_model("vocab")) {
      FOVEA_CHECK_INPUT(file_.tables.vocab.empty(), where("model.vocab"), ": is given twice");
      file_.tables.scored = true;
      return enter(kScoredList);
    }
    if (mode_ == kScoredList) return enter(kScored);
    return open(json::array());
  }
  bool end_array() override {
    if (mode_ == kMergePair) {
      FOVEA_CHECK_INPUT(pair_.size() == 2, where("model.merges"), ": a merge of fewer than two tokens");
      file_.tables.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      pair_.clear();
      return enter(kMerges);
    }
    if (mode_ == kScored) {
      const size_t count = file_.tables.vocab.size();
      FOVEA_CHECK_INPUT(pair_.size() == 1 && file_.tables.scores.size() == count + 1, where("model.vocab"), ": entry ",
                        count, " has no ", pair_.empty() ? "token" : "score");
      file_.tables.vocab.emplace_back(std::move(pair_[0]), static_cast<int64_t>(count));
      pair_.clear();
      return enter(kScoredList);
    }
    return mode_ == kMerges || mode_ == kScoredList ? enter(kDocument) : close();
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception…] parse error at line 1, column 2: …" without the library's name.
    std::string what = error.what();
    if (const size_t at = what.find("] "); what.starts_with('[') && at != std::string::npos) what = what.substr(at + 2);
    throw Error(ErrorKind::kInput, file_.source + ": " + what);
  }

 private:
  enum Mode { kDocument, kVocab, kScoredList, kScored, kMerges, kMergePair };

  struct Table {
    const char *name, *wanted;
  };
  static constexpr Table kTables[] = {{"", ""},
                                      {"model.vocab", "ids"},
                                      {"model.vocab", "pairs of a token and a score"},
                                      {"model.vocab", "a token and a score"},
                                      {"model.merges", "pairs of tokens"},
                                      {"model.merges", "pairs of tokens"}};  // by Mode

  std::string where(std::string_view section) const { return file_.source + ": " + std::string(section); }
  bool enter(Mode mode) {
    mode_ = mode;
    return true;
  }
  // Whether the value to come is model.<name>.
  bool in_model(std::string_view name) const {
    return stack_.size() == 2 && key_ == name && stack_.back()->is_object() && path_ == "model";
  }

  bool vocab_id(int64_t id) {
    file_.tables.vocab.emplace_back(std::move(token_), id);
    return true;
  }
  bool score(double v) {
    auto& [vocab, scored, scores, merges] = file_.tables;
    FOVEA_CHECK_INPUT(pair_.size() == 1 && scores.size() == vocab.size(), where("model.vocab"), ": entry ",
                      vocab.size(), " is not a token and one score");
    scores.push_back(v);
    return true;
  }

  json* place(json&& v) {
    FOVEA_CHECK_INPUT(mode_ == kDocument, where(kTables[mode_].name), ": wanted ", kTables[mode_].wanted, ", got ",
                      v.type_name());
    if (stack_.empty()) {
      file_.top = std::move(v);
      return &file_.top;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[key_] = std::move(v));
  }
  bool value(json&& v) {
    place(std::move(v));
    return true;
  }
  bool open(json&& container) {
    FOVEA_CHECK_INPUT(stack_.size() < 100, file_.source, ": nests deeper than 100");
    if (stack_.size() == 1) path_ = key_;
    stack_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  TokenizerFile& file_;
  Mode mode_ = kDocument;
  std::vector<json*> stack_;  // open containers; a parent's vector does not grow while a child is open
  std::string path_;          // the top-level key we are in
  std::string key_, token_;
  std::vector<std::string> pair_;
};

}  // namespace

std::pair<std::string, std::string> split_merge(const std::string& line, const std::string& where) {
  const size_t blank = line.find(' ');
  const bool two = blank != std::string::npos && blank > 0 && blank + 1 < line.size() &&
                   line.find(' ', blank + 1) == std::string::npos;
  FOVEA_CHECK_INPUT(two, where, ": the merge \"", line, "\" is not two tokens with a blank between them");
  return {line.substr(0, blank), line.substr(blank + 1)};
}

TokenizerFile parse_tokenizer_file(std::string_view text, std::string_view source) {
  TokenizerFile file;
  file.source = source;
  Builder builder(file);
  json::sax_parse(text.begin(), text.end(), &builder);
  return file;
}

std::unique_ptr<Model> read_bpe(Fields& fields, ModelTables& tables, bool byte_level) {
  FOVEA_CHECK_INPUT(!tables.scored, fields.where("vocab"), ": wanted an object of tokens and ids, got a list");
  BpeOptions options;
  options.unknown_token = fields.string("unk_token", "");
  options.continuing_prefix = fields.string("continuing_subword_prefix", "");
  options.end_suffix = fields.string("end_of_word_suffix", "");
  options.fuse_unknown = fields.boolean("fuse_unk", false);
  options.byte_fallback = fields.boolean("byte_fallback", false);
  options.ignore_merges = fields.boolean("ignore_merges", false);
  options.byte_level = byte_level;
  // Random dropping of merges is for training; here it would make results a matter of chance.
  if (fields.has("dropout")) {
    const json& dropout = fields.at("dropout");
    FOVEA_CHECK_INPUT(dropout.is_number() && dropout.get<double>() == 0, fields.where("dropout"),
                      ": is not supported; only null is");
  }
  return std::make_unique<Bpe>(std::move(options), Vocabulary(tables.vocab, fields.where("vocab")), tables.merges,
                               fields.where("merges"));
}

}  // namespace fovea::text
