// Squeeze-and-excitation (Hu et al. 2018, equations 2 to 4): the mean of each map, through a bottleneck of two layers,
// becomes the weight of each channel.
//
//   y = x · σ(W₂ δ(W₁ mean(x)))
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/channel/channel_attention.h"
#include "fovea/layers/activation.h"

namespace fovea {

class SqueezeExcitationImpl final : public ChannelAttentionImpl {
 public:
  // Reads channels, reduction, least_hidden, bias, activation.
  explicit SqueezeExcitationImpl(const ChannelOptions& options);
  int64_t multiply_adds(int64_t Y, int64_t X) const override;

  torch::nn::Linear down{nullptr};  // C -> hidden
  torch::nn::Linear up{nullptr};    // hidden -> C

 protected:
  // Emits "weights" [B, C].
  Tensor attend(const Tensor& x) const override;

 private:
  Activation activation_;
};

}  // namespace fovea
