// WordPiece, BERT's model: the longest token that starts a word, then the longest that goes on ("##ing"), and so on; a
// word that cannot be covered is unknown as a whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fovea/text/model.h"
#include "fovea/text/vocabulary.h"

namespace fovea::text {

struct WordPieceOptions {
  std::string unknown_token = "[UNK]";
  std::string continuing_prefix = "##";
  int64_t max_characters = 100;  // a longer word is unknown
};

class WordPiece : public Model {
 public:
  // Error(kInput) `source: …` where the vocabulary lacks the unknown token.
  WordPiece(WordPieceOptions options, Vocabulary vocabulary, std::string_view source);

  std::unique_ptr<Workspace> make_workspace() const override;
  TokenRun tokenize(std::string_view word, Workspace& workspace) const override;
  std::optional<int64_t> token_to_id(std::string_view token) const override;
  std::optional<std::string_view> id_to_token(int64_t id) const override { return vocabulary_.token(id); }
  size_t size() const override { return vocabulary_.size(); }
  int64_t end_id() const override { return vocabulary_.end_id(); }
  std::string unknown_token() const override { return options_.unknown_token; }
  void write_json(std::string& out) const override;

 private:
  void cover(std::string_view word, std::string& spelling, std::vector<uint32_t>& ids,
             std::vector<uint32_t>& sizes) const;

  WordPieceOptions options_;
  Vocabulary vocabulary_;
  uint32_t unknown_ = 0;
};

}  // namespace fovea::text
