// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/tile_plan.h"

#include <algorithm>

namespace fovea {

TilePlan::TilePlan(const MaskRule& rule, int64_t b, int64_t h, int64_t queries, int64_t keys) {
  begin_.push_back(0);
  for (int64_t q0 = 0; q0 < queries; q0 += kTileQueries) {
    const size_t before = steps_.size();
    if (keys > 0) add_steps(rule, {b, h, q0, std::min(q0 + kTileQueries, queries), 0, keys});
    begin_.push_back(int64_t(steps_.size()));
    int64_t to_visit = 0;
    for (size_t i = before; i < steps_.size(); ++i) to_visit += steps_[i].last - steps_[i].first;
    keys_to_visit_.push_back(to_visit);
  }
}

// Halves keys until a rule knows all about them: a long text of which little is visible costs the logarithm of its
// length, not its length.
void TilePlan::add_steps(const MaskRule& rule, const Tile& tile) {
  const Cover cover = rule.cover(tile);
  if (cover == Cover::kSkip) return;
  const int64_t tiles = (tile.k1 - tile.k0 + kTileKeys - 1) / kTileKeys;
  if (cover == Cover::kPartial && tiles > 1) {
    Tile left = tile, right = tile;
    left.k1 = right.k0 = tile.k0 + tiles / 2 * kTileKeys;
    add_steps(rule, left);
    add_steps(rule, right);
  } else if (cover == Cover::kPartial) {
    add_partial_step(rule, tile);
  } else {
    for (int64_t k0 = tile.k0; k0 < tile.k1; k0 += kTileKeys)
      steps_.push_back({int32_t(k0 / kTileKeys), kFull, 0, int32_t(std::min(kTileKeys, tile.k1 - k0))});
  }
}

void TilePlan::add_partial_step(const MaskRule& rule, const Tile& tile) {
  const int64_t queries = tile.q1 - tile.q0, keys = tile.k1 - tile.k0;
  uint8_t visible[kTileQueries * kTileKeys];
  rule.fill(tile, visible, kTileKeys);
  QueryBits bits[kTileKeys] = {};
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) bits[k] |= QueryBits(visible[q * kTileKeys + k]) << q;
  const QueryBits all = queries == kTileQueries ? ~QueryBits{0} : (QueryBits{1} << queries) - 1;
  Step step{int32_t(tile.k0 / kTileKeys), kFull, 0, int32_t(keys)};
  while (step.first < step.last && bits[step.first] == 0) ++step.first;
  while (step.first < step.last && bits[step.last - 1] == 0) --step.last;
  if (step.first == step.last) return;
  if (!std::all_of(bits + step.first, bits + step.last, [all](QueryBits word) { return word == all; })) {
    step.bits = int32_t(bits_.size() / kTileKeys);
    bits_.insert(bits_.end(), bits, bits + kTileKeys);
  }
  steps_.push_back(step);
}

TilePlans::TilePlans(const MaskRule& rule, int64_t first_batch, int64_t batches, int64_t heads, int64_t queries,
                     int64_t keys)
    : by_batch_(rule.depends_on_batch()), by_head_(rule.depends_on_head()), heads_(by_head_ ? heads : 1) {
  for (int64_t b = 0; b < (by_batch_ ? batches : 1); ++b)
    for (int64_t h = 0; h < heads_; ++h) plans_.emplace_back(rule, first_batch + b, h, queries, keys);
}

}  // namespace fovea
