// One Transformer block: self-attention, optionally cross-attention, feed-forward, each with a residual connection and
// a norm before it or after the sum (Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020).
//
//   pre   x + dropout(part(norm(x)))
//   post  norm(x + dropout(part(x)))
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fovea/attention/attention.h"
#include "fovea/layers/feed_forward.h"
#include "fovea/layers/norm.h"

namespace fovea {

struct BlockOptions {
  MultiHeadOptions attention;       // memory_width is that of the cross-attention
  bool cross_attention = false;     // sizes as in `attention`
  FeedForwardOptions feed_forward;  // width 0: the attention's
  std::string norm = "layer";       // "layer", "rms"
  double eps = 1e-5;
  bool norm_bias = true;
  bool pre_norm = true;
  double dropout = 0;  // on what each part adds to the residual stream
};

struct BlockInput {
  Mask mask;
  Score score;
  Tensor past;    // [B, N, C], earlier inputs of this block, as in AttendInput
  Tensor memory;  // [B, S, M]; with cross_attention only
  Mask memory_mask;
  LayerCache* self_cache = nullptr;
  LayerCache* cross_cache = nullptr;
  Positions positions;  // as in AttendInput
  const PositionPass* position = nullptr;
  // Of the self-attention, as in AttendInput.
  Mask local_mask;
  Tensor global;
  std::optional<double> attention_dropout;
};

// What flows from block to block: the residual stream, and what the last part adds to it, which the next norm joins to
// it in one pass.
struct ResidualStream {
  Tensor stream;  // [B, T, C]
  Tensor added;   // [B, T, C] or undefined
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(BlockOptions options);
  // x [B, T, C] -> [B, T, C]. Probes: "attention.weights", "cross_attention.weights", "feed_forward.output" (before the
  // residual), "output".
  Tensor forward(const Tensor& x, const BlockInput& in = {}) const { return join(forward(ResidualStream{x, {}}, in)); }
  // The same without the last sum, for a stack.
  ResidualStream forward(ResidualStream x, const BlockInput& in) const;
  // stream + dropout(added)
  Tensor join(const ResidualStream& x) const;
  double dropout() const { return is_training() ? options_.dropout : 0; }
  const BlockOptions& options() const { return options_; }

  Norm attention_norm, cross_attention_norm, feed_forward_norm;
  Attention attention, cross_attention;  // the second is empty without cross_attention
  FeedForward feed_forward;

 private:
  template <class Part>
  void run_part(ResidualStream& x, const Norm& norm, Part part) const;

  BlockOptions options_;
};
FOVEA_MODULE(Block, BlockOptions);

}  // namespace fovea
