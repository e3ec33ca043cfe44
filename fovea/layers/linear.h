// The one place where a module multiplies by a weight: y = x Wᵀ + b.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

namespace fovea {

// x [..., in] -> [..., out]. Const, unlike the module's own forward.
at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x);

}  // namespace fovea
