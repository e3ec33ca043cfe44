// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/wordpiece.h"

#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/json_text.h"
#include "fovea/text/tokenizer_file.h"
#include "fovea/text/utf8_step.h"
#include "fovea/text/word_cache.h"

namespace fovea::text {
namespace {

struct Scratch : Model::Workspace {
  std::vector<uint32_t> ids, sizes;
  std::string spelling;
  WordCache cache;
};

}  // namespace

WordPiece::WordPiece(WordPieceOptions options, Vocabulary vocabulary, std::string_view source)
    : options_(std::move(options)), vocabulary_(std::move(vocabulary)) {
  const auto unknown = vocabulary_.find(options_.unknown_token);
  FOVEA_CHECK_INPUT(unknown, source, ": the unknown token \"", options_.unknown_token, "\" is not in the vocabulary");
  unknown_ = *unknown;
}

std::unique_ptr<Model::Workspace> WordPiece::make_workspace() const { return std::make_unique<Scratch>(); }

std::optional<int64_t> WordPiece::token_to_id(std::string_view token) const {
  const auto id = vocabulary_.find(token);
  if (!id) return std::nullopt;
  return static_cast<int64_t>(*id);
}

TokenRun WordPiece::tokenize(std::string_view word, Workspace& workspace) const {
  auto& scratch = static_cast<Scratch&>(workspace);
  WordCache::Entry* entry = nullptr;
  if (!word.empty() && word.size() <= WordCache::kLongestWord) {
    entry = &scratch.cache.entry(word);
    if (WordCache::holds(*entry, word)) {
      scratch.sizes.assign(entry->sizes, entry->sizes + entry->count);
      return {entry->ids, scratch.sizes.data(), entry->count};
    }
  }
  cover(word, scratch.spelling, scratch.ids, scratch.sizes);
  const size_t count = scratch.ids.size();
  if (entry != nullptr && count <= WordCache::kMostTokens)
    WordCache::store(*entry, word, scratch.ids.data(), scratch.sizes.data(), count);
  return {scratch.ids.data(), scratch.sizes.data(), count};
}

void WordPiece::cover(std::string_view word, std::string& spelling, std::vector<uint32_t>& ids,
                      std::vector<uint32_t>& sizes) const {
  ids.clear(), sizes.clear();
  const bool too_long = static_cast<int64_t>(count_code_points(word)) > options_.max_characters;
  for (size_t begin = 0; begin < word.size() && !too_long;) {
    spelling = begin > 0 ? options_.continuing_prefix : "";
    const size_t prefix = spelling.size();
    spelling += word.substr(begin);
    std::optional<Vocabulary::Id> id;
    while (spelling.size() > prefix && !(id = vocabulary_.find(spelling))) {
      const char* last = previous_character(spelling.data() + spelling.size());
      spelling.resize(static_cast<size_t>(last - spelling.data()));
    }
    if (!id) break;
    ids.push_back(*id);
    sizes.push_back(static_cast<uint32_t>(spelling.size() - prefix));
    begin += sizes.back();
    if (begin == word.size()) return;
  }
  if (word.empty()) return;
  ids.assign(1, unknown_);
  sizes.assign(1, static_cast<uint32_t>(word.size()));
}

void WordPiece::write_json(std::string& out) const {
  out += R"({"type": "WordPiece", "unk_token": )" + json_string(options_.unknown_token);
  out += ", \"continuing_subword_prefix\": " + json_string(options_.continuing_prefix);
  out += ", \"max_input_chars_per_word\": " + std::to_string(options_.max_characters) + ",\n    \"vocab\": ";
  vocabulary_.write_json(out);
  out += "\n  }";
}

std::unique_ptr<Model> read_wordpiece(Fields& fields, ModelTables& tables, bool byte_level) {
  FOVEA_CHECK_INPUT(!byte_level, fields.where(), ": WordPiece behind ByteLevel is not supported");
  FOVEA_CHECK_INPUT(tables.merges.empty(), fields.where(), ": WordPiece has no merges");
  FOVEA_CHECK_INPUT(!tables.scored, fields.where("vocab"), ": wanted an object of tokens and ids, got a list");
  WordPieceOptions options;
  options.unknown_token = fields.string("unk_token");
  options.continuing_prefix = fields.string("continuing_subword_prefix");
  options.max_characters = fields.integer("max_input_chars_per_word");
  return std::make_unique<WordPiece>(std::move(options), Vocabulary(tables.vocab, fields.where("vocab")),
                                     fields.where());
}

}  // namespace fovea::text
