// The one place where a module multiplies by a weight: y = x Wᵀ + b.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

namespace fovea {

// A layer that begins as LibTorch's does: uniform in ±1/√in.
torch::nn::Linear make_linear(int64_t in, int64_t out, bool bias = true);

// x [..., in] -> [..., out]. Const, unlike the module's own forward.
at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x);

}  // namespace fovea
