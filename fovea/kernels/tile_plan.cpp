// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/tile_plan.h"

#include <algorithm>

namespace fovea {

TilePlan::TilePlan(const MaskRule& rule, int64_t b, int64_t h, int64_t queries, int64_t keys) {
  begin_.push_back(0);
  std::vector<uint8_t> visible(size_t(kTileQueries * kTileKeys));
  for (int64_t q0 = 0; q0 < queries; q0 += kTileQueries) {
    const int64_t q1 = std::min(q0 + kTileQueries, queries);
    int64_t to_visit = 0;
    for (int64_t k0 = 0; k0 < keys; k0 += kTileKeys) {
      const int64_t k1 = std::min(k0 + kTileKeys, keys);
      const Tile tile{b, h, q0, q1, k0, k1};
      const Cover cover = rule.cover(tile);
      if (cover == Cover::kSkip) continue;
      Step step{int32_t(k0 / kTileKeys), kFull, 0, int32_t(k1 - k0)};
      if (cover == Cover::kPartial) {
        rule.fill(tile, visible.data(), kTileKeys);
        QueryBits bits[kTileKeys] = {};
        for (int64_t q = 0; q < q1 - q0; ++q)
          for (int64_t k = 0; k < k1 - k0; ++k) bits[k] |= QueryBits(visible[size_t(q * kTileKeys + k)]) << q;
        const QueryBits all = q1 - q0 == kTileQueries ? ~QueryBits{0} : (QueryBits{1} << (q1 - q0)) - 1;
        while (step.first < step.last && bits[step.first] == 0) ++step.first;
        while (step.first < step.last && bits[step.last - 1] == 0) --step.last;
        if (step.first == step.last) continue;
        if (!std::all_of(bits + step.first, bits + step.last, [all](QueryBits word) { return word == all; })) {
          step.bits = int32_t(bits_.size() / kTileKeys);
          bits_.insert(bits_.end(), bits, bits + kTileKeys);
        }
      }
      steps_.push_back(step);
      to_visit += step.last - step.first;
    }
    begin_.push_back(int64_t(steps_.size()));
    keys_to_visit_.push_back(to_visit);
  }
}

TilePlans::TilePlans(const MaskRule& rule, int64_t first_batch, int64_t batches, int64_t heads, int64_t queries,
                     int64_t keys)
    : by_batch_(rule.depends_on_batch()), by_head_(rule.depends_on_head()), heads_(by_head_ ? heads : 1) {
  for (int64_t b = 0; b < (by_batch_ ? batches : 1); ++b)
    for (int64_t h = 0; h < heads_; ++h) plans_.emplace_back(rule, first_batch + b, h, queries, keys);
}

}  // namespace fovea
