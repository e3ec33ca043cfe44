// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/none.h"

#include "fovea/positions/registry.h"

namespace fovea {

void register_positions_none(PositionsRegistry& registry) {
  registry.add("none", {.make = [](auto& options) { return std::make_shared<PositionImpl>("none", options); }});
}

}  // namespace fovea
