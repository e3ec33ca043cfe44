// Byte-pair encoding: a word starts as characters (or bytes); the pair with the lowest rank merges first, the leftmost
// among equals, until no pair is in the table. Sennrich et al. 2016; byte level: Radford et al. 2019.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "fovea/text/merge_table.h"
#include "fovea/text/model.h"
#include "fovea/text/vocabulary.h"

namespace fovea::text {

struct BpeOptions {
  std::string unknown_token;  // empty: characters without a token are left out
  std::string continuing_prefix, end_suffix;
  bool fuse_unknown = false;
  bool byte_fallback = false;  // a character without a token becomes its bytes, "<0x0A>"
  bool ignore_merges = false;  // a word that is a token is taken as it is
  // Words arrive as bytes and the vocabulary spells bytes in GPT-2's alphabet (the ByteLevel pre-tokenizer).
  bool byte_level = false;
};

class Bpe : public Model {
 public:
  using Merge = std::pair<std::string, std::string>;

  // `merges` in order of rank; among repeats of a pair the last counts. Error(kInput) `source: …` for a merge or an
  // unknown token that the vocabulary lacks.
  Bpe(BpeOptions options, Vocabulary vocabulary, const std::vector<Merge>& merges, std::string_view source);

  std::unique_ptr<Workspace> make_workspace() const override;
  TokenRun tokenize(std::string_view word, Workspace& workspace) const override;
  std::optional<int64_t> token_to_id(std::string_view token) const override;
  std::optional<std::string_view> id_to_token(int64_t id) const override { return vocabulary_.token(id); }
  size_t size() const override { return vocabulary_.size(); }
  int64_t end_id() const override { return vocabulary_.end_id(); }
  std::string unknown_token() const override { return options_.unknown_token; }
  void write_json(std::string& out) const override;

 private:
  struct Scratch;
  static constexpr uint32_t kNone = MergeTable::kNone;

  void build_merges(const std::vector<Merge>& merges, std::string_view source);
  void build_bytes(std::string_view source);
  bool tokenize_whole(std::string_view word, Scratch& scratch) const;
  void tokenize_slowly(std::string_view word, Scratch& scratch) const;
  void start_bytes(std::string_view word, Scratch& scratch) const;
  void start_characters(std::string_view word, Scratch& scratch) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  BpeOptions options_;
  Vocabulary vocabulary_;
  Vocabulary spelled_;                                 // byte level with ignore_merges: the same tokens as bytes
  std::vector<std::pair<uint32_t, uint32_t>> merges_;  // by rank
  MergeTable table_;
  uint32_t unknown_ = kNone;
  std::array<uint32_t, 256> byte_ids_{};      // byte level: id of each byte; otherwise of ASCII characters
  std::array<uint32_t, 256> fallback_ids_{};  // "<0x0A>"
};

}  // namespace fovea::text
