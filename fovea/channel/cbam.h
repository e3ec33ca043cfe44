// Convolutional block attention (Woo et al. 2018): a weight for each channel, from the mean and the largest number of
// its map, then a weight for each place, from the mean and the largest number of its channels.
//
//   channels   σ(MLP(mean(x)) + MLP(max(x)))        equation 2; the MLP is a bottleneck of two layers
//   places     σ(conv₇ₓ₇([mean_c(x); max_c(x)]))     equation 3
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/channel/channel_attention.h"
#include "fovea/layers/activation.h"

namespace fovea {

class CbamImpl final : public ChannelAttentionImpl {
 public:
  // Reads channels, reduction, least_hidden, bias, activation, kernel, order.
  explicit CbamImpl(const ChannelOptions& options);
  int64_t multiply_adds(int64_t Y, int64_t X) const override;

  torch::nn::Linear down{nullptr};  // C -> hidden
  torch::nn::Linear up{nullptr};    // hidden -> C
  Tensor spatial;                   // [1, 2, k, k], initially uniform in ±1/(k √2)

 protected:
  // Emits "channel_weights" [B, C] and "spatial_weights" [B, Y, X].
  Tensor attend(const Tensor& x) const override;

 private:
  Tensor weigh_channels(const Tensor& x) const;
  Tensor weigh_places(const Tensor& x) const;

  Activation activation_;
};

}  // namespace fovea
