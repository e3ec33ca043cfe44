// Relative keys (Shaw et al. 2018, equation 5; Transformer-XL, Dai et al. 2019, section 3.3): a learned or computed vector per
// distance that the query is multiplied with. It reads the query and has a gradient for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/scores/score.h"

namespace fovea::scores {

// score + scale · (query + bias[h]) · table[r][h], r = clamp(k − (q + S − T), −reach, reach) + reach;
// table [2·reach + 1, D] or [2·reach + 1, H, D]; bias [H, D] (Transformer-XL's v) or undefined.
Score relative(const at::Tensor& table, const at::Tensor& bias = {});

}  // namespace fovea::scores
