// Which tiles of scores a mask leaves to compute: per tile of queries the list of tiles of keys that hold something
// visible. Made once for all heads (and batches) that a rule does not tell apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "fovea/kernels/isa.h"
#include "fovea/kernels/mask_rule.h"

namespace fovea {

// f(i) for all i < n, in any order and at the same time.
using ParallelFor = std::function<void(int64_t n, const std::function<void(int64_t)>& f)>;

// What one tile of queries sees.
class TilePlan {
 public:
  static constexpr int32_t kFull = -1;
  struct Step {
    int32_t tile;                 // keys tile · kTileKeys …
    int32_t bits = kFull;         // where the tile's visible pairs are stored
    int32_t first = 0, last = 0;  // keys of the tile outside first … last − 1 are hidden from all of its queries
    int32_t queries = 0;          // those behind the first so many see nothing of it
  };

  TilePlan() = default;
  TilePlan(const MaskRule& rule, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t keys);

  const std::vector<Step>& steps() const { return steps_; }
  // One word per key of the tile: bit q is query q of the query tile.
  const QueryBits* bits(const Step& step) const { return bits_.data() + int64_t{step.bits} * kTileKeys; }
  // What a unit of work is weighed by.
  int64_t pairs_to_visit() const { return pairs_to_visit_; }

 private:
  void add_steps(const MaskRule& rule, const Tile& tile);
  void add_partial_step(const MaskRule& rule, const Tile& tile);  // of one tile

  std::vector<Step> steps_;
  std::vector<QueryBits> bits_;
  int64_t pairs_to_visit_ = 0;
};

// The tiles of queries of one batch and head, in order.
using TilePlanRows = std::vector<TilePlan>;

// The plans of a batch: one where the rule does not depend on batch and head. Tiles of queries are planned side by
// side: a user's rule is asked for every pair, of which there may be many.
class TilePlans {
 public:
  TilePlans() = default;
  TilePlans(const MaskRule& rule, int64_t first_batch, int64_t batches, int64_t heads, int64_t queries, int64_t keys,
            const ParallelFor& parallel);
  // b counts from 0 within the batch.
  const TilePlanRows& at(int64_t b, int64_t h) const {
    return plans_[size_t((by_batch_ ? b : 0) * heads_ + (by_head_ ? h : 0))];
  }

 private:
  std::vector<TilePlanRows> plans_;
  bool by_batch_ = false, by_head_ = false;
  int64_t heads_ = 1;
};

}  // namespace fovea
