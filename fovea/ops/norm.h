// Normalisation over the channels, alone or together with the residual sum before it, as one pass over memory.
//
//   layer   (x − mean) / √(variance + eps) · weight + bias      (Ba et al. 2016, equation 3)
//   rms     x / √(mean(x²) + eps) · weight                      (Zhang & Sennrich 2019, equation 4)
//
// f32 and bf16 on a CPU run on our kernels, forward and backward, the rest on LibTorch's operators. Statistics are
// taken in f32 (f64 for f64); the result is rounded to x's type once, at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea {

struct NormParameters {
  at::Tensor weight;  // [C]
  at::Tensor bias;    // [C] or undefined
  double eps = 1e-5;
  bool centred = true;  // layer; false: rms
};

// x [..., C] -> [..., C]
at::Tensor norm(const at::Tensor& x, const NormParameters& parameters);

struct ResidualNorm {
  at::Tensor sum;     // x + dropout(added)
  at::Tensor normed;  // norm(sum)
};

// x, added [..., C] of one type -> the same shapes. Elements of `added` are dropped with probability `dropout`, the
// others scaled by 1 / (1 − dropout); a dropped NaN is 0. Which ones depends on the seed (from LibTorch's generator),
// row and column alone. With dropout there are no second derivatives.
ResidualNorm residual_norm(const at::Tensor& x, const at::Tensor& added, double dropout,
                           const NormParameters& parameters);

}  // namespace fovea
