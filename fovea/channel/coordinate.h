// Coordinate attention (Hou et al. 2021, section 3.2): the means of each row and of each column of a map share a
// bottleneck, and become a weight for each row and for each column of each channel; so a weight knows where it is.
//
//   f = δ(norm(W₁ [means of rows; means of columns])),   y = x · σ(W_rows f_rows) · σ(W_columns f_columns)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/channel/channel_attention.h"
#include "fovea/layers/activation.h"
#include "fovea/layers/batch_norm.h"

namespace fovea {

class CoordinateAttentionImpl final : public ChannelAttentionImpl {
 public:
  // Reads channels, reduction, least_hidden, bias, activation, norm, eps, momentum. In training, the batch norm takes
  // this batch's mean and variance and moves its running ones, so threads may share the module in evaluation only.
  explicit CoordinateAttentionImpl(const ChannelOptions& options);
  int64_t multiply_adds(int64_t Y, int64_t X) const override;

  torch::nn::Linear down{nullptr};                    // C -> hidden
  BatchNorm norm;                                     // over hidden; empty without
  torch::nn::Linear rows{nullptr}, columns{nullptr};  // hidden -> C

 protected:
  // Emits "row_weights" [B, C, Y] and "column_weights" [B, C, X].
  Tensor attend(const Tensor& x) const override;

 private:
  Activation activation_;
};

}  // namespace fovea
