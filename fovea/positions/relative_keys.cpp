// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/relative_keys.h"

#include "fovea/base/size.h"
#include "fovea/ops/fresh.h"
#include "fovea/positions/registry.h"
#include "fovea/scores/relative.h"

namespace fovea {

RelativeKeysPositionImpl::RelativeKeysPositionImpl(const PositionOptions& options)
    : PositionImpl("relative_keys", options) {
  FOVEA_CHECK_CONFIG(options.head_width > 0, "position \"relative_keys\": head_width is ", options.head_width,
                     ", wanted at least 1");
  if (options_.reach == 0) options_.reach = 16;
  check_parameters("position \"relative_keys\"", (2 * double(options_.reach) + 1) * double(options.head_width));
  weight = register_parameter("weight", fresh_weight({2 * options_.reach + 1, options.head_width}, 0.02));
}

Score RelativeKeysPositionImpl::score(int64_t, int64_t) const { return scores::relative(weight); }

void register_positions_relative_keys(PositionsRegistry& registry) {
  registry.add("relative_keys",
               {.make = [](auto& options) { return std::make_shared<RelativeKeysPositionImpl>(options); }});
}

}  // namespace fovea
