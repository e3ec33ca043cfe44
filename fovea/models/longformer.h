// Longformer (Beltagy et al. 2020): RoBERTa whose tokens see a window of their neighbours, and global tokens that see
// all and are seen by all, so that cost grows with the length and not with its square. Reads and writes Hugging Face's
// folders of it; its tokenizer is RoBERTa's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/bert.h"

namespace fovea {

struct LongformerConfig {
  BertConfig bert{.type = "longformer", .pad_token_id = 1};  // what it shares with RoBERTa; `type` is not read
  // Of each layer, or one for all: a token sees windows[i] / 2 tokens on either side, so windows are even. One that is
  // wider than the text shows all of it.
  std::vector<int64_t> windows{512};
  int64_t sep_token_id = 2;  // ends the question of a pair
};

// Which tokens are global is said by batch.global; without it by the head: a classifier's first token, the question's
// tokens where answers are sought (those before the first of exactly three separators), none for the others. A mark on
// padding does not count.
class LongformerImpl : public BertImpl {
 public:
  // Error(kConfig) when sizes, windows and head do not fit each other.
  explicit LongformerImpl(LongformerConfig config);
  static LongformerConfig read_config(const nlohmann::json& json);

  Tensor encode(const Batch& batch) const override;
  // bool [B, T], or undefined where none is; Error(kArgument) when a row marks more tokens than it has.
  Tensor global_tokens(const Batch& batch) const;

  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;

 protected:
  std::shared_ptr<BertImpl> relative(BertConfig config) const override;

 private:
  std::vector<int64_t> windows_;  // of each layer
  int64_t sep_token_id_;
};
TORCH_MODULE(Longformer);

}  // namespace fovea
