// A score bias as the kernels see it: a visitor of score tiles. Forward it changes a tile of scores; backward it turns
// the gradient of what it wrote into the gradient of what it read and collects the gradients of its own parameters. No
// tensor of all scores ever exists.
//
// Visitors see natural units (scores after scale and soft cap) and absolute (b, h, q, k).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "fovea/kernels/view.h"

namespace fovea {

// Scores, or their gradient, of `queries` × `keys` pairs of one (b, h). Queries are the fast axis: the kernels compute
// K · Qᵀ, so that maximum and sum run over rows.
struct ScoreTile {
  int64_t b = 0, h = 0, q0 = 0, k0 = 0, queries = 0, keys = 0;
  float* values = nullptr;  // values[(k - k0) * stride + (q - q0)]
  int64_t stride = 0;
  const float* query = nullptr;  // query[(q - q0) * D + d], unscaled; only where reads_query()
  float* query_gradient = nullptr;

  float& at(int64_t q, int64_t k) const { return values[(k - k0) * stride + (q - q0)]; }
};

// The axes over which a visitor sums its parameters' gradients. The kernel runs those in order inside one task, so that
// the sums do not depend on the number of threads.
struct ReducedAxes {
  bool batch = true, head = true, query = true, key = true;
};

class ScoreVisitor {
 public:
  virtual ~ScoreVisitor() = default;
  virtual void forward(const ScoreTile& scores) const = 0;
  // `gradient` holds d(loss)/d(scores after forward); on return d(loss)/d(scores before). `before` holds the scores
  // before forward and is valid only where needs_scores(). `own[i]` is the gradient of parameter i, contiguous, or
  // nullptr.
  virtual void backward(const ScoreTile& gradient, const ScoreTile& before, float* const* own) const = 0;
  virtual bool needs_scores() const { return false; }
  virtual bool reads_query() const { return false; }
  virtual ReducedAxes reduced_axes() const { return {}; }
};

using ScoreVisitorPtr = std::shared_ptr<const ScoreVisitor>;

}  // namespace fovea
