// Efficient channel attention (Wang et al. 2020, section 3.2): a channel's weight comes from the means of its k nearest
// channels, by one convolution that all of them share. Equation 12 gives k:
//
//   k = the odd number at or above ⌊(log₂ C + 1) / 2⌋,   y = x · σ(conv_k(mean(x)))
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/channel/channel_attention.h"

namespace fovea {

class EcaImpl final : public ChannelAttentionImpl {
 public:
  // Reads channels and kernel.
  explicit EcaImpl(const ChannelOptions& options);
  int64_t multiply_adds(int64_t Y, int64_t X) const override;
  static int64_t kernel_for(int64_t channels);

  Tensor weight;  // [1, 1, k], initially uniform in ±1/√k

 protected:
  // Emits "weights" [B, C].
  Tensor attend(const Tensor& x) const override;
};

}  // namespace fovea
