// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/unigram.h"

#include <algorithm>
#include <cstdio>

#include "fovea/base/check.h"
#include "fovea/text/json_text.h"
#include "fovea/text/tokenizer_file.h"
#include "fovea/text/utf8_step.h"
#include "fovea/text/word_cache.h"

namespace fovea::text {

struct Unigram::Scratch : Model::Workspace {
  // The best way to cover a text up to a place. Its token is the last one; length 0: no way is known yet.
  struct Cell {
    double score = 0;
    uint32_t id = 0, length = 0;
  };

  std::vector<Cell> cells;  // by bytes from `begin` on
  size_t begin = 0, end = 0;
  std::vector<std::pair<uint32_t, uint32_t>> path;  // ids and sizes, last first
  size_t unknown_begin = 0, unknown_size = 0;       // neighbouring unknowns are one
  std::vector<uint32_t> ids, sizes;
  WordCache cache;

  void add(uint32_t id, size_t size) { ids.push_back(id), sizes.push_back(static_cast<uint32_t>(size)); }
};

Unigram::Unigram(UnigramOptions options, std::vector<std::pair<std::string, int64_t>> tokens,
                 std::vector<double> scores, std::string_view source)
    : options_(options), scores_(std::move(scores)), source_(source) {
  FOVEA_CHECK_INPUT(!tokens.empty(), source, ": the vocabulary is empty");
  FOVEA_CHECK_INPUT(tokens.size() <= TokenTrie::kMostTokens, source, ": ", tokens.size(),
                    " tokens, supported are at most ", TokenTrie::kMostTokens);
  vocabulary_ = Vocabulary(tokens, source, Vocabulary::Repeats::kLastCounts);
  std::vector<std::string_view> spellings;
  spellings.reserve(tokens.size());
  for (const auto& [token, id] : tokens) {
    spellings.emplace_back(token);
    longest_ = std::max(longest_, token.size());
  }
  trie_ = TokenTrie(spellings, scores_);
  constexpr double kPenalty = 10;  // an unknown character is worse than every token
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kPenalty;
  if (options_.unknown_id) {
    FOVEA_CHECK_INPUT(*options_.unknown_id < static_cast<int64_t>(tokens.size()), source, ": unk_id is ",
                      *options_.unknown_id, ", but there are only ", tokens.size(), " tokens");
    unknown_ = static_cast<uint32_t>(*options_.unknown_id);
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    char code[8];
    std::snprintf(code, sizeof code, "<0x%02X>", static_cast<unsigned>(byte));
    byte_ids_[byte] = options_.byte_fallback ? vocabulary_.find(code).value_or(kNone) : kNone;
  }
}

std::unique_ptr<Model::Workspace> Unigram::make_workspace() const { return std::make_unique<Scratch>(); }

std::optional<int64_t> Unigram::token_to_id(std::string_view token) const {
  const auto id = vocabulary_.find(token);
  if (!id) return std::nullopt;
  return static_cast<int64_t>(*id);
}

std::string Unigram::unknown_token() const {
  return unknown_ == kNone ? std::string() : std::string(*vocabulary_.token(unknown_));
}

TokenRun Unigram::tokenize(std::string_view word, Workspace& workspace) const {
  auto& scratch = static_cast<Scratch&>(workspace);
  if (word.empty()) return {};
  WordCache::Entry* entry = nullptr;
  if (word.size() <= WordCache::kLongestWord) {
    entry = &scratch.cache.entry(word);
    if (WordCache::holds(*entry, word)) {
      scratch.sizes.assign(entry->sizes, entry->sizes + entry->count);
      return {entry->ids, scratch.sizes.data(), entry->count};
    }
  }
  cut(word, scratch);
  const size_t count = scratch.ids.size();
  if (entry != nullptr && count <= WordCache::kMostTokens)
    WordCache::store(*entry, word, scratch.ids.data(), scratch.sizes.data(), count);
  return {scratch.ids.data(), scratch.sizes.data(), count};
}

void Unigram::cut(std::string_view word, Scratch& s) const {
  using Cell = Scratch::Cell;
  constexpr size_t kWindow = 1 << 14;
  s.ids.clear(), s.sizes.clear();
  s.unknown_size = 0;
  s.begin = 0;
  s.cells.assign(std::min(word.size(), kWindow) + longest_ + 5, Cell());
  size_t reached = 0;  // the furthest end of a token so far
  for (size_t at = 0; at < word.size();) {
    // Where no token crosses, every way goes through, and what lies behind is settled: a long text needs few cells.
    if (at == reached && at - s.begin >= kWindow) {
      const double score = s.cells[at - s.begin].score;
      s.end = at;
      emit(word, s.begin, s);
      std::fill_n(s.cells.begin(), at - s.begin + 1, Cell());
      s.begin = at;
      s.cells[0].score = score;
    }
    if (s.cells.size() < at - s.begin + longest_ + 5) s.cells.resize(2 * s.cells.size());
    Cell* here = s.cells.data() + (at - s.begin);
    const size_t size = character_size(word[at]);
    const auto offer = [&](size_t length, uint32_t id, double token_score) {
      const double score = here->score + token_score;
      Cell& cell = here[length];
      if (cell.length == 0 || score > cell.score) cell = {score, id, static_cast<uint32_t>(length)};
      reached = std::max(reached, at + length);
    };
    bool single = false;
    trie_.for_each_prefix(word.substr(at), [&](size_t length, uint32_t id, double score) {
      offer(length, id, score);
      single = single || length == size;
    });
    if (!single) offer(size, unknown_, unknown_score_);
    FOVEA_CHECK_INPUT(here[size].id != kNone, source_, ": no token covers \"", word.substr(at, size),
                      "\", and the file has no unk_id");
    at += size;
  }
  s.end = word.size();
  emit(word, s.begin, s);
  flush_unknown(word, s);
}

// Adds the tokens of the best way from `begin` to s.end.
void Unigram::emit(std::string_view word, size_t begin, Scratch& s) const {
  s.path.clear();
  for (size_t at = s.end; at > begin;) {
    const Scratch::Cell& cell = s.cells[at - begin];
    s.path.emplace_back(cell.id, cell.length);
    at -= cell.length;
  }
  for (auto token = s.path.rbegin(); token != s.path.rend(); ++token) {
    const auto [id, size] = *token;
    if (id == unknown_) {
      if (s.unknown_size == 0) s.unknown_begin = begin;
      s.unknown_size += size;
    } else {
      flush_unknown(word, s);
      s.add(id, size);
    }
    begin += size;
  }
}

void Unigram::flush_unknown(std::string_view word, Scratch& s) const {
  if (s.unknown_size == 0) return;
  const std::string_view text = word.substr(s.unknown_begin, s.unknown_size);
  s.unknown_size = 0;
  // Two unknown characters may make a token that scores worse than both.
  const auto id = vocabulary_.find(text);
  const auto has_code = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] != kNone; };
  if (id || !options_.byte_fallback || !std::all_of(text.begin(), text.end(), has_code)) {
    s.add(id.value_or(unknown_), text.size());
    return;
  }
  // As in the package, each of the bytes stands for the whole run.
  for (size_t i = 0; i < text.size(); ++i) s.add(byte_ids_[static_cast<uint8_t>(text[i])], i == 0 ? text.size() : 0);
}

void Unigram::write_json(std::string& out) const {
  out += R"({"type": "Unigram", "unk_id": )" + (unknown_ == kNone ? "null" : std::to_string(unknown_));
  out += ",\n    \"vocab\": [";
  const char* separator = "\n      [";
  for (size_t id = 0; id < scores_.size(); ++id) {
    out += separator + json_string(*vocabulary_.token(static_cast<int64_t>(id))) + ", " +
           nlohmann::json(scores_[id]).dump() + "]";
    separator = ",\n      [";
  }
  out += std::string("\n    ],\n    \"byte_fallback\": ") + (options_.byte_fallback ? "true" : "false") + "\n  }";
}

std::unique_ptr<Model> read_unigram(Fields& fields, ModelTables& tables, bool byte_level) {
  FOVEA_CHECK_INPUT(!byte_level, fields.where(), ": Unigram behind ByteLevel is not supported");
  FOVEA_CHECK_INPUT(tables.merges.empty(), fields.where(), ": Unigram has no merges");
  FOVEA_CHECK_INPUT(tables.scored, fields.where("vocab"), ": wanted a list of tokens with their scores");
  UnigramOptions options;
  if (fields.has("unk_id")) options.unknown_id = fields.integer("unk_id");
  options.byte_fallback = fields.boolean("byte_fallback", false);
  return std::make_unique<Unigram>(options, std::move(tables.vocab), std::move(tables.scores), fields.where());
}

}  // namespace fovea::text
