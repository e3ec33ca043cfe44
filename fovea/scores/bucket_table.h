// T5's relative bias (Raffel et al. 2020, section 2.1): a learned number per head and bucket of distances; buckets are exact
// for near keys and logarithmic up to max_distance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/scores/score.h"

namespace fovea {

// The bucket of a key at `distance` = key position − query position. Two-sided: half of the buckets for each direction;
// one-sided: later keys share bucket 0.
int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets = 32, int64_t max_distance = 128);

namespace scores {

// score + table[bucket(k − (q + S − T))][h]; table [buckets, H]. The newest query has distance 0 to the newest key.
Score bucket_table(const at::Tensor& table, bool bidirectional, int64_t max_distance = 128);

}  // namespace scores
}  // namespace fovea
