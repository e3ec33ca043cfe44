// What a file in scores/ registers: the differentiable definition, and the tile form that the kernels use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fovea/base/registry.h"
#include "fovea/scores/score.h"

namespace fovea {

struct ScoreEntry {
  // The definition: scores [B, H, T, S] -> scores, by differentiable tensor operations; query [B, H, T, D], unscaled.
  // `scale` is the factor of q·k. Checks the term against the shape (throws).
  std::function<at::Tensor(const Score::Term& term, const at::Tensor& scores, const at::Tensor& query, double scale,
                           const AttentionShape& shape)>
      define;
  // The tile form over the same data.
  std::function<ScoreVisitorPtr(const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data, double scale,
                                const AttentionShape& shape)>
      bind;
  // Terms worth testing at a shape; the conformance test loops over them.
  std::function<std::vector<Score>(const AttentionShape& shape)> samples;
  // How many tensors a term has; an encoded term with more or fewer is refused before `define` sees it.
  size_t least_tensors = 1, most_tensors = 1;
};

struct ScoresRegistry : Registry<ScoreEntry> {
  ScoresRegistry() : Registry("score") {}
};

const ScoresRegistry& scores_registry();

}  // namespace fovea
