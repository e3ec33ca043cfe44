// Unigram, sentencepiece's model: of all ways to cut a word into tokens the one whose scores (log probabilities) have
// the largest sum. Kudo 2018, equation 7, by Viterbi's algorithm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "fovea/text/model.h"
#include "fovea/text/token_trie.h"
#include "fovea/text/vocabulary.h"

namespace fovea::text {

struct UnigramOptions {
  std::optional<int64_t> unknown_id;  // without: a text with a character that is no token is Error(kInput)
  bool byte_fallback = false;         // characters without a token become their bytes, "<0x0A>", where all have one
};

class Unigram : public Model {
 public:
  // Token i has the id i; of equal ones, which the package's own training can make, the last counts. Error(kInput)
  // `source: …` for an empty vocabulary and an id out of range.
  Unigram(UnigramOptions options, std::vector<std::pair<std::string, int64_t>> tokens, std::vector<double> scores,
          std::string_view source);

  std::unique_ptr<Workspace> make_workspace() const override;
  TokenRun tokenize(std::string_view word, Workspace& workspace) const override;
  std::optional<int64_t> token_to_id(std::string_view token) const override;
  std::optional<std::string_view> id_to_token(int64_t id) const override { return vocabulary_.token(id); }
  size_t size() const override { return vocabulary_.size(); }
  int64_t end_id() const override { return vocabulary_.end_id(); }
  std::string unknown_token() const override;
  bool spelled_by_text(int64_t id) const override { return id == options_.unknown_id; }
  void write_json(std::string& out) const override;

 private:
  struct Scratch;
  static constexpr uint32_t kNone = UINT32_MAX;

  void cut(std::string_view word, Scratch& scratch) const;
  void emit(std::string_view word, size_t begin, Scratch& scratch) const;
  void flush_unknown(std::string_view word, Scratch& scratch) const;

  UnigramOptions options_;
  Vocabulary vocabulary_;
  std::vector<double> scores_;
  TokenTrie trie_;
  std::string source_;
  size_t longest_ = 0;  // bytes of the longest token
  uint32_t unknown_ = kNone;
  double unknown_score_ = 0;
  std::array<uint32_t, 256> byte_ids_{};  // "<0x0A>"
};

}  // namespace fovea::text
