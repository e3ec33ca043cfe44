// What encoder-decoder models have in common: a stack that reads the source, a stack that writes the target and looks
// at what the first one made of it, one table of tokens or two, and logits from the target's table or a head of its
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/blocks/stack.h"
#include "fovea/layers/embedding.h"
#include "fovea/models/model.h"

namespace fovea {

struct EncoderDecoderParts {
  StackOptions encoder, decoder;
  EmbeddingOptions target_embedding;
  EmbeddingOptions source_embedding;  // vocabulary 0: the target's table
  bool tied = true;                   // the output projection is the target's table
};

class EncoderDecoderImpl : public GenerativeModelImpl {
 public:
  // source [B, S], lengths [B] -> [B, S, C]
  Tensor encode(const Tensor& source, const Tensor& lengths = {}, const Positions& positions = {}) const;
  // Teacher forcing: batch.ids [B, S], batch.target_ids [B, U] -> logits [B, U, V]; batch.positions are the source's.
  // Without target_ids the decoder reads the labels [B, U], one place later, behind the token that opens a target.
  Tensor forward(const Batch& batch) const override;
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  int64_t vocab_size() const override { return target_embedding_->options().vocabulary; }
  int64_t source_vocab_size() const override { return source_embedding_->options().vocabulary; }

  bool has_encoder() const override { return true; }
  DecoderState begin(const Tensor& source = {}, const Tensor& source_lengths = {}) const override;
  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override;

 protected:
  void build(const EncoderDecoderParts& parts);
  // The output projection is scaled(hidden) · tableᵀ + bias.
  virtual Tensor scaled(const Tensor& hidden) const { return hidden; }  // [B, U, C]
  virtual Tensor logits_bias() const { return {}; }                     // [1, V], or undefined
  // What opens a target, and what may stand where a label does not count; −1: unknown.
  virtual int64_t start_id() const = 0;
  virtual int64_t pad_id() const = 0;

  Embedding target_embedding_, source_embedding_;  // the same module where shared
  Stack encoder_, decoder_;
  torch::nn::Linear head_{nullptr};  // only where not tied

 private:
  Tensor decoder_input(const Batch& batch) const;
  Tensor hidden(const Batch& batch) const;    // [B, U, C]
  Tensor logits(const Tensor& hidden) const;  // [B, U, C] -> [B, U, V]
};

}  // namespace fovea
