// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/encoder_decoder.h"

#include <ATen/ATen.h>

#include "fovea/base/check.h"
#include "fovea/base/probe.h"
#include "fovea/layers/linear.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/cross_entropy.h"

namespace fovea {

void EncoderDecoderImpl::build(const EncoderDecoderParts& parts) {
  const bool shared = parts.source_embedding.vocabulary == 0;
  target_embedding_ = register_module("target_embedding", Embedding(parts.target_embedding));
  source_embedding_ =
      shared ? target_embedding_ : register_module("source_embedding", Embedding(parts.source_embedding));
  encoder_ = register_module("encoder", Stack(parts.encoder));
  decoder_ = register_module("decoder", Stack(parts.decoder));
  const EmbeddingOptions& table = parts.target_embedding;
  if (!parts.tied) head_ = register_module("head", make_linear(table.width, table.vocabulary, false));
}

Tensor EncoderDecoderImpl::logits(const Tensor& hidden) const {
  const Tensor x = scaled(hidden);
  const Tensor out = head_.is_empty() ? target_embedding_->logits(x) : affine(x, head_->weight);
  const Tensor bias = logits_bias();
  return bias.defined() ? out + bias : out;
}

Tensor EncoderDecoderImpl::encode(const Tensor& source, const Tensor& lengths, const Positions& positions) const {
  const ProbeScope scope("encoder");
  return encoder_->forward(source_embedding_->forward(source),
                           {.lengths = lengths, .positions = positions});  // [B, S, C]
}

Tensor EncoderDecoderImpl::decoder_input(const Batch& batch) const {
  if (batch.target_ids.defined()) return batch.target_ids;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, batch.labels.defined(), type(),
                   ": the batch has no target_ids; an encoder-decoder model learns from pairs");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, batch.labels.dim() == 2, type(), ": labels are ", batch.labels.sizes(),
                   ", wanted [B, U]");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, start_id() >= 0, type(),
                   ": the batch has no target_ids, and the configuration no decoder_start_token_id to open them with");
  const Tensor start = at::full({batch.labels.size(0), 1}, start_id(), batch.labels.options());
  const Tensor before = at::cat({start, batch.labels.slice(1, 0, std::max<int64_t>(batch.labels.size(1) - 1, 0))}, 1)
                            .slice(1, 0, batch.labels.size(1));  // [B, U]
  return before.masked_fill(before == kIgnore, std::max<int64_t>(pad_id(), 0));
}

Tensor EncoderDecoderImpl::hidden(const Batch& batch) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !batch.documents.defined(), type(),
                   ": the batch has documents; packed texts are for models with one stack");
  const Tensor target = decoder_input(batch);
  const Positions positions = batch.positions.defined() ? Positions(batch.positions) : Positions();
  const Tensor memory = encode(batch.ids, batch.lengths, positions);  // [B, S, C]
  const ProbeScope scope("decoder");
  return decoder_->forward(target_embedding_->forward(target),
                           {.lengths = batch.target_lengths, .memory = memory, .memory_lengths = batch.lengths});
}

Tensor EncoderDecoderImpl::forward(const Batch& batch) const { return logits(hidden(batch)); }

LossSum EncoderDecoderImpl::loss(const Batch& batch, double label_smoothing) {
  const Tensor& table = head_.is_empty() ? target_embedding_->weight : head_->weight;
  const auto out = logits_bias().defined()
                       ? cross_entropy_sum(forward(batch), batch.labels, label_smoothing)
                       : linear_cross_entropy_sum(scaled(hidden(batch)), table, batch.labels, label_smoothing);
  return {out.sum, out.count};
}

DecoderState EncoderDecoderImpl::begin(const Tensor& source, const Tensor& source_lengths) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, source.defined(), type(), ": begin() needs a source to encode");
  DecoderState state;
  state.memory = encode(source, source_lengths);
  state.memory_lengths = source_lengths;
  return state;
}

Tensor EncoderDecoderImpl::step(const Tensor& ids, DecoderState& state, bool last_only) const {
  const ProbeScope scope("decoder");
  Tensor hidden = decoder_->forward(target_embedding_->forward(ids), {.state = &state});  // [B, T, C]
  if (last_only) hidden = hidden.slice(1, -1);                                            // [B, 1, C]
  return logits(hidden);
}

}  // namespace fovea
