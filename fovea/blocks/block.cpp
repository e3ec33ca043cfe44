// SPDX-License-Identifier: Apache-2.0
#include "fovea/blocks/block.h"

#include "fovea/base/check.h"
#include "fovea/base/probe.h"
#include "fovea/layers/dropout.h"

namespace fovea {

BlockImpl::BlockImpl(BlockOptions options) : options_(std::move(options)) {
  check_probability("block: dropout", options_.dropout);
  MultiHeadOptions self = options_.attention;
  self.memory_width = 0;
  FeedForwardOptions inner = options_.feed_forward;
  if (inner.width == 0) inner.width = self.width;
  FOVEA_CHECK_CONFIG(inner.width == self.width, "block: feed_forward has width ", inner.width, ", attention ",
                     self.width, "; both must be the same");
  const NormOptions norm{.width = self.width, .kind = options_.norm, .eps = options_.eps, .bias = options_.norm_bias};

  attention_norm = register_module("attention_norm", Norm(norm));
  attention = register_module("attention", Attention(self));
  if (options_.cross_attention) {
    MultiHeadOptions cross = options_.attention;
    cross.position = "none";
    cross.scope = "cross_attention";
    cross_attention_norm = register_module("cross_attention_norm", Norm(norm));
    cross_attention = register_module("cross_attention", Attention(cross));
  }
  feed_forward_norm = register_module("feed_forward_norm", Norm(norm));
  feed_forward = register_module("feed_forward", FeedForward(inner));
}

Tensor BlockImpl::join(const ResidualStream& x) const {
  return x.added.defined() ? x.stream + drop(x.added, options_.dropout, is_training()) : x.stream;
}

template <class Part>
void BlockImpl::run_part(ResidualStream& x, const Norm& norm, Part part) const {
  if (!options_.pre_norm) {
    x = {norm->forward(x.stream, part(x.stream), dropout()).normed, {}};
  } else if (!x.added.defined()) {
    x.added = part(norm->forward(x.stream));
  } else {
    const ResidualNorm joined = norm->forward(x.stream, x.added, dropout());
    x = {joined.sum, part(joined.normed)};
  }
}

ResidualStream BlockImpl::forward(ResidualStream x, const BlockInput& in) const {
  const bool past = in.past.defined();
  run_part(x, attention_norm, [&](const Tensor& h) {
    return attention->forward(h, {.past = past && options_.pre_norm ? attention_norm->forward(in.past) : in.past,
                                  .mask = in.mask,
                                  .score = in.score,
                                  .cache = in.self_cache,
                                  .positions = in.positions,
                                  .position = in.position,
                                  .local_mask = in.local_mask,
                                  .global = in.global,
                                  .dropout = in.attention_dropout});
  });
  if (!cross_attention.is_empty()) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, in.memory.defined(),
                     "block: cross-attention wants a memory [B, S, M], none was given");
    run_part(x, cross_attention_norm, [&](const Tensor& h) {
      return cross_attention->forward(h, {.memory = in.memory, .mask = in.memory_mask, .cache = in.cross_cache});
    });
  }
  run_part(x, feed_forward_norm, [&](const Tensor& h) {
    const ProbeScope scope("feed_forward");
    const Tensor out = feed_forward->forward(h);
    Probe::emit("output", out);
    return out;
  });
  if (Probe::wants("output")) {
    x = {join(x), {}};
    Probe::emit("output", x.stream);
  }
  return x;
}

}  // namespace fovea
