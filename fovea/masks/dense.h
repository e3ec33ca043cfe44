// Dense: the only doors for a boolean tensor, and they say what true means. An additive mask is a score: scores::dense().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// true = may be seen (scaled_dot_product_attention's convention). Any shape that broadcasts to [B, H, T, S].
Mask allow(const at::Tensor& visible);
// true = hidden (nn.MultiheadAttention's convention). Any shape that broadcasts to [B, H, T, S].
Mask block(const at::Tensor& hidden);

}  // namespace fovea::masks
