// BigBird (Zaheer et al. 2020): BERT whose tokens see, block by block, their neighbours, the first and the last block
// of the text, and some drawn at random, so that cost grows with the length and not with its square. Reads and writes
// Hugging Face's folders of it.
//
// Blocks are laid over each text from its first token on, whatever stands beside it in a batch: a text alone and in a
// batch gives the same. transformers lays them over padded rows, so there a row changes with its mates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/layers/feed_forward.h"
#include "fovea/layers/norm.h"
#include "fovea/masks/block_window.h"
#include "fovea/models/bert.h"

namespace fovea {

struct BigBirdConfig {
  BertConfig bert{.type = "big_bird", .vocab_size = 50358, .positions = 4096, .activation = "gelu_new"};  // as BERT's
  bool sparse = true;         // false: every token sees every token ("original_full")
  int64_t block_size = 64;    // tokens
  int64_t random_blocks = 3;  // R; texts of 5 + 2R blocks or fewer are not sparse
  int64_t sep_token_id = 66;  // ends the question of a pair
};

// In training a block of queries sees R blocks drawn at random (random_blocks.h); in evaluation the first block R times
// more, as transformers has it. Sparse attention has no dropout on its weights. A model that seeks answers gives those
// that begin or end in the question (up to the first separator, but for the first token) 10⁶ less; without type_ids the
// question is its first segment and the rest its second.
class BigBirdImpl : public BertImpl {
 public:
  // Error(kConfig) when sizes, blocks and head do not fit each other.
  explicit BigBirdImpl(BigBirdConfig config);
  static BigBirdConfig read_config(const nlohmann::json& json);

  // Error(kArgument) for packed texts (batch.documents) when sparse.
  Tensor encode(const Batch& batch) const override;

  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  void leave_out(const std::vector<std::string>& stored) override;

 protected:
  std::shared_ptr<BertImpl> relative(BertConfig config) const override;
  Tensor classify(const Tensor& hidden, const Batch& batch) const override;

 private:
  ListedBlocks listed_blocks(const Batch& batch, const std::vector<int64_t>& lengths, int64_t layer) const;
  Tensor question_slots(const Batch& batch) const;  // bool [B, T]

  BigBirdConfig options_;  // without `bert`
  // Head "question_answering": one more feed-forward, post-norm, before the classifier.
  FeedForward answer_feed_forward_;
  Norm answer_norm_;
  torch::nn::Linear unused_pooler_{nullptr};  // stored beside other heads, so that a folder is handed on whole
};
TORCH_MODULE(BigBird);

}  // namespace fovea
