// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/learned.h"

#include <ATen/ops/embedding.h>

#include "fovea/base/size.h"
#include "fovea/ops/fresh.h"
#include "fovea/positions/registry.h"

namespace fovea {

LearnedPositionImpl::LearnedPositionImpl(const PositionOptions& options) : PositionImpl("learned", options) {
  FOVEA_CHECK_CONFIG(options.width > 0, "position \"learned\": width is ", options.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.max_positions > 0, "position \"learned\": max_positions is 0; a table needs its length");
  FOVEA_CHECK_CONFIG(options.offset >= 0, "position \"learned\": offset is ", options.offset, ", wanted at least 0");
  check_parameters("position \"learned\"", double(options.max_positions) * double(options.width));
  weight = register_parameter("weight", fresh_weight({options.max_positions + options.offset, options.width}, 0.02));
}

Tensor LearnedPositionImpl::embed(const Tensor& x, const Positions& positions) const {
  const int64_t T = x.size(1);
  check_fits(positions, T);
  if (!positions.ids.defined()) {
    const int64_t row = positions.begin() + options_.offset;
    return x + weight.slice(0, row, row + T);
  }
  return x + at::embedding(weight, options_.offset == 0 ? positions.ids : positions.ids + options_.offset);
}

void register_positions_learned(PositionsRegistry& registry) {
  registry.add("learned", {.make = [](auto& options) { return std::make_shared<LearnedPositionImpl>(options); }});
}

}  // namespace fovea
