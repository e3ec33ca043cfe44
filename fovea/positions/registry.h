// What a file in positions/ registers: how to make the encoding from its options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fovea/base/registry.h"
#include "fovea/positions/position.h"

namespace fovea {

struct PositionEntry {
  // Checks the options it reads (throws Error(kConfig)) and ignores the others.
  std::function<Position(const PositionOptions& options)> make;
};

struct PositionsRegistry : Registry<PositionEntry> {
  PositionsRegistry() : Registry("position") {}
};

const PositionsRegistry& positions_registry();

}  // namespace fovea
