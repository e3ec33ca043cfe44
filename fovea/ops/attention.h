// The one public attention call; masks, score biases and dropout are values given to it.
//
//   score = scale · q·k  →  soft cap  →  + bias  →  mask  →  softmax  →  dropout on the weights  →  · v
//
// (Vaswani et al. 2017, equation 1; the rest as docs/numerics.md states.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "fovea/masks/mask.h"
#include "fovea/scores/score.h"

namespace fovea {

using at::Tensor;

// Who may answer a call. By default the kernels, and the reference for what they refuse; FOVEA_LOG=dispatch tells.
enum class AttentionPath {
  any,
  kernel,     // an error instead of the reference
  reference,  // by the definition: it alone has second derivatives
};

struct AttentionOptions {
  Mask mask;                            // everything visible
  Score score;                          // no bias
  std::optional<double> scale;          // 1/√D
  double soft_cap = 0;                  // c > 0: score -> c · tanh(score / c)
  double dropout = 0;                   // probability to drop a weight, in [0, 1]
  std::optional<int64_t> dropout_seed;  // drawn from LibTorch's generator (torch::manual_seed reproduces)
  AttentionPath path = AttentionPath::any;
};

// query [B, H, T, D], key [B, G, S, D], value [B, G, S, E] -> [B, H, T, E]; any strides; G divides H, query head h uses
// key/value head ⌊h·G/H⌋. f64, f32, bf16, f16; all three of one type, which the result has; products accumulate in f32
// or better. A row that sees nothing gives 0; a hidden key does not exist, whatever it holds. Throws fovea::Error that
// names the argument, what was wanted and what came.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options = {});

struct AttentionResult {
  Tensor output;       // [B, H, T, E]
  Tensor weights;      // [B, H, T, S], before dropout
  Tensor log_sum_exp;  // [B, H, T], f32 (f64 for f64); −∞ for a row that sees nothing
};

// The same, with the weights and the log-sum-exp of the scores, both differentiable. Stores all B·H·T·S weights.
AttentionResult attention_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options = {});

// Packed batches: query [tokens, H, D], key [tokens, G, D], value [tokens, G, E] -> [tokens, H, E]; sequence i is rows
// offsets[i] … offsets[i+1] − 1 (integers [N + 1], from 0 to the number of tokens, never falling; empty sequences are
// fine). Masks, biases and dropout see sequence i as batch i and positions within it; sequences never see each other.
Tensor attention_packed(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_offsets,
                        const Tensor& key_offsets, const AttentionOptions& options = {});

}  // namespace fovea
