// ALiBi (Press et al. 2022, section 3): a penalty that grows with distance, one slope per head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/scores/score.h"

namespace fovea::scores {

// score − slopes[h] · |q + S − T − k|; slopes [H], learned or fixed. The newest query stands at the newest key.
Score slopes(const at::Tensor& slopes);

}  // namespace fovea::scores
