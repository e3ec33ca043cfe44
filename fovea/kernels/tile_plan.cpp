// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/tile_plan.h"

#include <algorithm>
#include <bit>

namespace fovea {

TilePlan::TilePlan(const MaskRule& rule, int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t keys) {
  if (keys > 0) add_steps(rule, {b, h, q0, q1, 0, keys});
  for (const Step& step : steps_) pairs_to_visit_ += int64_t{step.last - step.first} * step.queries;
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
      steps_.push_back(
          {int32_t(k0 / kTileKeys), kFull, 0, int32_t(std::min(kTileKeys, tile.k1 - k0)), int32_t(tile.q1 - tile.q0)});
  }
}

void TilePlan::add_partial_step(const MaskRule& rule, const Tile& tile) {
  const int64_t queries = tile.q1 - tile.q0, keys = tile.k1 - tile.k0;
  uint8_t visible[kTileQueries * kTileKeys];
  rule.fill(tile, visible, kTileKeys);
  QueryBits bits[kTileKeys] = {};
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) bits[k] |= QueryBits(visible[q * kTileKeys + k]) << q;
  QueryBits some = 0;  // queries that see a key
  for (const QueryBits word : bits) some |= word;
  if (some == 0) return;
  const QueryBits all = ~QueryBits{0} >> (kTileQueries - queries);
  Step step{int32_t(tile.k0 / kTileKeys), kFull, 0, int32_t(keys), int32_t(std::bit_width(some))};
  while (bits[step.first] == 0) ++step.first;
  while (bits[step.last - 1] == 0) --step.last;
  if (!std::all_of(bits + step.first, bits + step.last, [all](QueryBits word) { return word == all; })) {
    step.bits = int32_t(bits_.size() / kTileKeys);
    bits_.insert(bits_.end(), bits, bits + kTileKeys);
  }
  steps_.push_back(step);
}

TilePlans::TilePlans(const MaskRule& rule, int64_t first_batch, int64_t batches, int64_t heads, int64_t queries,
                     int64_t keys, const ParallelFor& parallel)
    : by_batch_(rule.depends_on_batch()), by_head_(rule.depends_on_head()), heads_(by_head_ ? heads : 1) {
  constexpr int64_t kTogether = 8;  // tiles of queries: fewer are not worth another thread
  const int64_t tiles = (queries + kTileQueries - 1) / kTileQueries;
  plans_.assign(size_t((by_batch_ ? batches : 1) * heads_), TilePlanRows(size_t(tiles)));
  const int64_t count = int64_t(plans_.size()) * tiles;
  parallel((count + kTogether - 1) / kTogether, [&](int64_t part) {
    for (int64_t i = part * kTogether; i < std::min(count, (part + 1) * kTogether); ++i) {
      const int64_t plan = i / tiles, q0 = i % tiles * kTileQueries;
      plans_[size_t(plan)][size_t(i % tiles)] =
          TilePlan(rule, first_batch + plan / heads_, plan % heads_, q0, std::min(q0 + kTileQueries, queries), keys);
    }
  });
}

}  // namespace fovea
