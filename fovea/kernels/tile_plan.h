// Which tiles of scores a mask leaves to compute: per tile of queries the list of tiles of keys that hold something
// visible. Made once for all heads (and batches) that a rule does not tell apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fovea/kernels/isa.h"
#include "fovea/kernels/mask_rule.h"

namespace fovea {

class TilePlan {
 public:
  static constexpr int32_t kFull = -1;
  struct Step {
    int32_t tile;                 // keys tile · kTileKeys …
    int32_t bits = kFull;         // where the tile's visible pairs are stored
    int32_t first = 0, last = 0;  // keys of the tile outside first … last − 1 are hidden from all of its queries
  };

  TilePlan(const MaskRule& rule, int64_t b, int64_t h, int64_t queries, int64_t keys);

  std::span<const Step> steps(int64_t query_tile) const {
    return {steps_.data() + begin_[size_t(query_tile)], steps_.data() + begin_[size_t(query_tile) + 1]};
  }
  // One word per key of the tile: bit q is query q of the query tile.
  const QueryBits* bits(const Step& step) const { return bits_.data() + int64_t{step.bits} * kTileKeys; }
  int64_t query_tiles() const { return int64_t(begin_.size()) - 1; }
  bool hides_something() const { return !bits_.empty(); }
  // Pairs of tiles to compute, in keys: what a unit of work is weighed by.
  int64_t keys_to_visit(int64_t query_tile) const { return keys_to_visit_[size_t(query_tile)]; }

 private:
  void add_steps(const MaskRule& rule, const Tile& tile);
  void add_partial_step(const MaskRule& rule, const Tile& tile);  // of one tile

  std::vector<Step> steps_;
  std::vector<int64_t> begin_, keys_to_visit_;  // per query tile
  std::vector<QueryBits> bits_;
};

// The plans of a batch: one where the rule does not depend on batch and head.
class TilePlans {
 public:
  TilePlans() = default;
  TilePlans(const MaskRule& rule, int64_t first_batch, int64_t batches, int64_t heads, int64_t queries, int64_t keys);
  // b counts from 0 within the batch.
  const TilePlan& at(int64_t b, int64_t h) const {
    return plans_[size_t((by_batch_ ? b : 0) * heads_ + (by_head_ ? h : 0))];
  }

 private:
  std::vector<TilePlan> plans_;
  bool by_batch_ = false, by_head_ = false;
  int64_t heads_ = 1;
};

}  // namespace fovea
