// What the forward and backward loops share: one tile of scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <vector>

#include "fovea/kernels/attention.h"
#include "fovea/kernels/operands.h"

namespace fovea {

// The scores of one tile after everything but the softmax.
class ScoreTiles {
 public:
  ScoreTiles(const AttentionTask& task, Scratch& scratch, bool backward);
  // The query tile at q0: `rows` rows of head h.
  void open(const Sequence& sequence, int64_t h, int64_t q0, int64_t rows);
  // values[k − step.first][query], behind a row of zeros.
  float* compute(const TilePlan& plan, const TilePlan::Step& step, PackedRows& keys);
  // Gradients of those scores -> of scale · q·k; those of visitors' parameters are added to own[visitor][parameter].
  void backward(float* gradients, const TilePlan::Step& step, const std::vector<std::vector<float*>>& own);

  const QueryTile& query() const { return query_; }  // scaled; with rows backward only
  TileDropout dropout() const;
  // What dropout() leaves to multiply kept weights with: a 1 / (1 − p) within rounded weights would be off by the same
  // in all of them.
  float weight_scale() const;
  // Of visitors that read the query: [rows][D]; or nullptr.
  const float* query_gradient() const { return query_gradient_; }

 private:
  ScoreTile tile(float* values, const TilePlan::Step& step) const;

  const AttentionTask& task_;
  const Isa& isa_;
  const Sequence* sequence_ = nullptr;
  int64_t h_ = 0, q0_ = 0;
  QueryTile query_;
  float *scores_, *capped_ = nullptr, *unscaled_ = nullptr, *query_gradient_ = nullptr;
  std::vector<float*> before_;  // per visitor that needs it
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Where a running maximum starts: finite, so that a row of −∞ leaves weights of 0 and no NaN.
inline constexpr float kLowest = std::numeric_limits<float>::lowest();

}  // namespace fovea
