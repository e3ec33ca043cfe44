// Sliding window: a query sees keys near its own position.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// The newest `window` keys up to the query's own position, itself included (Mistral): p − window < k ≤ p, p = q + S − T.
Mask sliding_window(int64_t window);
// Two-sided (Longformer): p − left ≤ k ≤ p + right.
Mask sliding_window(int64_t left, int64_t right);

}  // namespace fovea::masks
