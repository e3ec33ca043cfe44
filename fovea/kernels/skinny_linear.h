// A linear layer of a few rows: what decoding spends its time on. It is bound by reading the weights, where LibTorch's
// matrix product takes a generic path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// output[m][n] = Σ_k input[m][k] · weight[n][k] + bias[n] for n in [begin, end); all rows contiguous; bias may be
// nullptr. Sums in f32, in an order that depends on `width` alone.
struct SkinnyLinear {
  const float* input;   // [rows, width]
  const float* weight;  // [outputs, width]
  const float* bias;    // [outputs] or nullptr
  float* output;        // [rows, outputs]
  int64_t rows, width, outputs;
};

void skinny_linear(const SkinnyLinear& args, int64_t begin, int64_t end);

}  // namespace fovea
