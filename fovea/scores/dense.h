// Dense: a tensor added to the scores (an additive mask, Swin's relative bias, …). −∞ hides like a mask.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/scores/score.h"

namespace fovea::scores {

// score + bias; any shape that broadcasts to [B, H, T, S]. Its gradient is summed over the broadcast axes.
Score dense(const at::Tensor& bias);

}  // namespace fovea::scores
