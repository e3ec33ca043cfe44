// Dropout on activations (attention's own dropout lives in the attention call).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea {

// Training: each element is 0 with probability p, the others are scaled by 1/(1 − p); p = 1 gives zeros, also for
// infinite or NaN x. Otherwise x itself. Draws from LibTorch's generator.
at::Tensor drop(const at::Tensor& x, double p, bool training);

// Throws Error(kConfig) naming `what` unless 0 ≤ p ≤ 1.
void check_probability(const char* what, double p);

}  // namespace fovea
