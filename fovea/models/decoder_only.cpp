// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/decoder_only.h"

#include <ATen/ATen.h>

#include "fovea/base/check.h"
#include "fovea/layers/linear.h"
#include "fovea/masks/document.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/cross_entropy.h"

namespace fovea {

void DecoderOnlyImpl::build(int64_t vocab_size, const StackOptions& stack, bool tied, bool scaled) {
  const int64_t width = stack.block.attention.width;
  embedding_ = register_module("embedding", Embedding({.vocabulary = vocab_size, .width = width, .scale = scaled}));
  decoder_ = register_module("decoder", Stack(stack));
  if (!tied) head_ = register_module("head", make_linear(width, vocab_size, false));
}

Tensor DecoderOnlyImpl::logits(const Tensor& hidden) const {
  return head_.is_empty() ? embedding_->logits(hidden) : affine(hidden, head_->weight);
}

Tensor DecoderOnlyImpl::hidden(const Batch& batch) const {
  StackInput in{.lengths = batch.lengths};
  if (batch.documents.defined()) in.mask = masks::document(batch.documents);
  if (batch.positions.defined()) in.positions = batch.positions;
  return decoder_->forward(embedding_->forward(batch.ids), in);  // [B, T, C]
}

Tensor DecoderOnlyImpl::forward(const Batch& batch) const { return logits(hidden(batch)); }  // [B, T, V]

LossSum DecoderOnlyImpl::loss_of(const Tensor& hidden, const Tensor& labels, double label_smoothing) const {
  const Tensor& table = head_.is_empty() ? embedding_->weight : head_->weight;
  const auto out = linear_cross_entropy_sum(hidden, table, labels, label_smoothing);
  return {out.sum, out.count};
}

LossSum DecoderOnlyImpl::loss(const Batch& batch, double label_smoothing) {
  return loss_of(hidden(batch), batch.labels, label_smoothing);
}

DecoderState DecoderOnlyImpl::begin(const Tensor& source, const Tensor&) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !source.defined(), type(), " has no encoder; the prompt goes to step()");
  return {};
}

Tensor DecoderOnlyImpl::step(const Tensor& ids, DecoderState& state, bool last_only) const {
  Tensor hidden = decoder_->forward(embedding_->forward(ids), {.state = &state});  // [B, T, C]
  if (last_only) hidden = hidden.slice(1, -1);                                     // [B, 1, C]
  return logits(hidden);
}

}  // namespace fovea
