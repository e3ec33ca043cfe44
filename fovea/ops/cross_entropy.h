// Cross entropy over token ids as a sum and a count, so that batches of unequal size average by token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea {

struct CrossEntropySum {
  at::Tensor sum;     // scalar, differentiable, f32 (f64 for f64 logits); 0 where no label counts
  int64_t count = 0;  // labels that count
};

// logits [..., V], labels [...] int64; a label of kIgnore (−100) does not count. With smoothing ε (Szegedy et al. 2016,
// section 7) the target distribution is (1 − ε) on the label and ε / V on each of the V tokens, the label included:
//
//   loss = −(1 − ε) · log p[label] − (ε / V) · Σ_v log p[v]
//
// which is LibTorch's definition. Half-width logits are widened first. Error(kArgument) for shapes, types, a label
// outside 0 … V − 1, or ε outside [0, 1].
CrossEntropySum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0);

// The same for the logits hidden · weightᵀ, hidden [..., C], weight [V, C], which are never stored whole: rows are
// taken in chunks, and where a gradient is wanted it is computed with the loss, while a chunk's logits are at hand (so
// that a second derivative is an error). f32 and bf16 on a CPU; everything else by the definition.
CrossEntropySum linear_cross_entropy_sum(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                         double label_smoothing = 0);

}  // namespace fovea
