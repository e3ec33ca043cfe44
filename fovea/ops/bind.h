// Where tensors become views: masks and scores as the kernels see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fovea/masks/mask.h"
#include "fovea/scores/score.h"

namespace fovea {

// A rule or visitor together with the tensors it points into.
template <class Pointer>
struct Bound {
  Pointer object;
  std::vector<at::Tensor> storage;
};

// Integers arrive as int64, floating types as `floating`, booleans as they are; on the CPU, any strides. The tensor that is
// seen (a converted copy, where needed) is appended to `storage`.
ArrayView view_of(const at::Tensor& tensor, std::vector<at::Tensor>& storage, at::ScalarType floating = at::kFloat);

Bound<MaskRulePtr> bind_mask(const Mask& mask, const AttentionShape& shape);
Bound<ScoreVisitorPtr> bind_score(const Score::Term& term, double scale, const AttentionShape& shape);

// The definition as a tensor: bool [B|1, H|1, T, S], true where visible; of batches first … first + count − 1.
at::Tensor visible(const Mask& mask, const AttentionShape& shape, int64_t first, int64_t count);

}  // namespace fovea
