// x · weightᵀ + bias, with a path of its own for the few rows of a decoding step, which is bound by reading the
// weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace fovea {

struct Affine {
  at::Tensor weight;  // [N, K]
  at::Tensor bias;    // [N] or undefined
};

// x [..., K] -> [..., N]. at::linear, except on a CPU where no gradient is needed: up to eight f32 or bf16 rows are
// bound by reading the weights; bf16 is widened to f32 block by block where LibTorch has no fast product of it (AVX2).
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

// Three layers of one input, such as query, key and value, in one go.
std::array<at::Tensor, 3> affine3(const at::Tensor& x, const std::array<Affine, 3>& layers);

// LibTorch multiplies matrices of bf16 well from AVX-512 on; with AVX2 many times more slowly than those of f32.
bool half_products_are_slow();

}  // namespace fovea
