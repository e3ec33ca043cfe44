// GELU by its tanh form (Hendrycks & Gimpel 2016), which GPT-2 and its kin use:
//
//   y = x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea {

// Any shape; f32 on a CPU by our kernel, forward and backward, everything else (and second derivatives) by LibTorch.
at::Tensor gelu_tanh(const at::Tensor& x);

}  // namespace fovea
