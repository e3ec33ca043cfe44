// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/t5_bias.h"

#include "fovea/ops/fresh.h"
#include "fovea/positions/registry.h"
#include "fovea/scores/bucket_table.h"

namespace fovea {

T5BiasPositionImpl::T5BiasPositionImpl(const PositionOptions& options) : PositionImpl("t5_bias", options) {
  FOVEA_CHECK_CONFIG(options.heads > 0, "position \"t5_bias\": heads is ", options.heads, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.buckets >= 4 && options.buckets % 2 == 0, "position \"t5_bias\": buckets is ",
                     options.buckets, ", wanted an even number from 4 on");
  const int64_t exact = options.buckets / (options.bidirectional ? 4 : 2);
  FOVEA_CHECK_CONFIG(options.max_distance > exact, "position \"t5_bias\": max_distance is ", options.max_distance,
                     ", wanted above the ", exact, " distances that have a bucket of their own");
  weight = register_parameter("weight", fresh_weight({options.buckets, options.heads}, 0.02));
}

Score T5BiasPositionImpl::score(int64_t, int64_t) const {
  return scores::bucket_table(weight, options_.bidirectional, options_.max_distance);
}

void register_positions_t5_bias(PositionsRegistry& registry) {
  registry.add("t5_bias", {.make = [](auto& options) { return std::make_shared<T5BiasPositionImpl>(options); }});
}

}  // namespace fovea
