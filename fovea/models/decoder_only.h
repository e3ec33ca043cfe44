// What decoders without an encoder have in common: one stack that reads a text and goes on with it, and logits from the
// embedding or a head of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/blocks/stack.h"
#include "fovea/layers/embedding.h"
#include "fovea/models/model.h"

namespace fovea {

class DecoderOnlyImpl : public GenerativeModelImpl {
 public:
  // ids [B, T] -> logits [B, T, V]. Rows padded on the right: lengths [B]; packed texts: documents [B, T] and positions
  // [B, T], as in Batch.
  Tensor forward(const Batch& batch) const override;
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  int64_t vocab_size() const override { return embedding_->options().vocabulary; }
  int64_t max_positions() const override { return decoder_->max_positions(); }

  bool has_encoder() const override { return false; }
  DecoderState begin(const Tensor& source = {}, const Tensor& source_lengths = {}) const override;
  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override;

 protected:
  // Registers the parts. `tied`: the output projection is the embedding; `scaled`: that is multiplied by √C on its way
  // in.
  void build(int64_t vocab_size, const StackOptions& stack, bool tied, bool scaled = false);

  Tensor logits(const Tensor& hidden) const;  // [B, T, C] -> [B, T, V]
  LossSum loss_of(const Tensor& hidden, const Tensor& labels, double label_smoothing) const;

  Embedding embedding_;
  Stack decoder_;
  torch::nn::Linear head_{nullptr};  // only where not tied

 private:
  Tensor hidden(const Batch& batch) const;  // [B, T, C]
};

}  // namespace fovea
