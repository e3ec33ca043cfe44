// Rotary positions on query and key in one pass (the encoding itself: positions/rope.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace fovea {

// How pairs of channels turn at each position: y = x · cosine + (x with each pair swapped) · sine, where the sine holds
// the sign of its place.
struct RotaryTables {
  at::Tensor cosine, sine;   // [T, R] or [B, 1, T, R], f32 (f64 for f64 queries)
  bool interleaved = false;  // pairs are neighbours, otherwise half of R apart
};

// query [B, H, T, D], key [B, G, T, D] -> the same with the first R channels of each head turned. f32 and bf16 on a CPU
// by our kernel, forward and backward; everything else, and second derivatives, by LibTorch's operators.
std::pair<at::Tensor, at::Tensor> rotary(const at::Tensor& query, const at::Tensor& key, const RotaryTables& tables);

}  // namespace fovea
