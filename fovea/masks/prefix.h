// Prefix: the first keys are visible to every query (prefix language models; combine with | causal()).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// Keys 0 … length − 1 are visible to all; `masks::prefix(n) | masks::causal()` is the usual prefix-LM mask.
Mask prefix(int64_t length);
Mask prefix(const at::Tensor& lengths);  // per sequence, [B]

}  // namespace fovea::masks
