// A tokenizer's stages and how text runs through them: added tokens are cut out, the rest is normalised, cut into
// words, handed to the model; then truncation, special tokens, padding. Decoding runs the other way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fovea/text/added_tokens.h"
#include "fovea/text/decoder.h"
#include "fovea/text/model.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/post_processor.h"
#include "fovea/text/pre_tokenizer.h"
#include "fovea/text/tokenizer.h"
#include "fovea/text/tokenizer_file.h"

namespace fovea::text {

// Workspaces that outlive a call: their word caches stay warm, and each running call has one to itself.
class WorkspacePool {
 public:
  std::unique_ptr<Model::Workspace> take(const Model& model);
  void give_back(std::unique_ptr<Model::Workspace> workspace);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Model::Workspace>> idle_;
};

struct Roles {
  std::optional<int64_t> bos, eos, pad, unk, mask;
};

struct Pipeline {
  explicit Pipeline(TokenizerFile file);

  // Tokens of one text, as the post-processor takes them. `detailed` false: ids only.
  Encoding encode(std::string_view text, int64_t type_id, bool detailed) const;
  // The whole way.
  Encoding encode_all(const std::vector<std::string_view>& texts, const EncodeOptions& options, bool detailed) const;

  // The token of an id, as a decoder takes it. Error(kArgument) where there is none.
  DecodedPart part(int64_t id) const;
  bool is_special(int64_t id) const;
  std::string join(std::vector<DecodedPart> parts) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // The token of an id, or "" where there is none.
  std::string_view spelling(int64_t id) const;
  void write_json(std::string& out) const;

  std::string source;
  nlohmann::json sections;  // the small sections of tokenizer.json as they were read: saving writes them back
  std::unique_ptr<Normalizer> normalizer;  // these four may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Model> model;
  AddedTokens added;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  int64_t vocab_size = 0, end_id = 0;
  Roles roles;

 private:
  class Run;
  std::vector<AddedToken> read_added_tokens() const;
  void find_roles();
  mutable WorkspacePool pool_;
};

}  // namespace fovea::text
