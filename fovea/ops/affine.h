// x · weightᵀ + bias, with a path of its own for the few rows of a decoding step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea {

// x [..., K], weight [N, K], bias [N] or undefined -> [..., N]. at::linear, except for up to eight f32 rows on a CPU that need
// no gradient.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace fovea
