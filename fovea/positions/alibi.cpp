// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/alibi.h"

#include <ATen/ops/tensor.h>

#include <bit>
#include <cmath>

#include "fovea/positions/registry.h"
#include "fovea/scores/slopes.h"

namespace fovea {

Tensor alibi_slopes(int64_t heads) {
  FOVEA_CHECK_CONFIG(heads > 0, "position \"alibi\": heads is ", heads, ", wanted at least 1");
  const auto slope = [](int64_t i, int64_t n) { return std::exp2(-8.0 * double(i) / double(n)); };
  const auto power = int64_t(std::bit_floor(uint64_t(heads)));
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  for (int64_t i = 1; int64_t(slopes.size()) < heads; i += 2) slopes.push_back(slope(i, 2 * power));
  return at::tensor(slopes, at::kDouble).to(at::kFloat);
}

AlibiPositionImpl::AlibiPositionImpl(const PositionOptions& options)
    : PositionImpl("alibi", options), slopes(alibi_slopes(options.heads)) {
  if (options.learned_slopes) slopes = register_parameter("slopes", slopes);
}

Score AlibiPositionImpl::score(int64_t, int64_t) const { return scores::slopes(slopes); }

void register_positions_alibi(PositionsRegistry& registry) {
  registry.add("alibi", {.make = [](auto& options) { return std::make_shared<AlibiPositionImpl>(options); }});
}

}  // namespace fovea
