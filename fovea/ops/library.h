// LibTorch's own fused attention for CPUs, for the calls it answers as we promise: plain f32, no bias, no dropout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fovea/ops/reference.h"

namespace fovea {

// Why LibTorch's kernel cannot take this call, or "" if it can. `visible` is the mask as the reference sees it, undefined
// where everything is visible.
std::string library_refuses(const AttentionCall& call, const Tensor& visible);
// The output [b, H, T, E]; has no second derivative.
Tensor library_attention(const AttentionCall& call, const Tensor& visible);

}  // namespace fovea
