// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/full.h"

#include "fovea/masks/registry.h"

namespace fovea {

void register_masks_full(MasksRegistry& registry) {
  registry.add("full", {.bind = [](auto&, auto&, auto&) { return full_rule(); },
                        .samples = [](auto&) { return std::vector<Mask>{masks::full(), ~masks::full()}; }});
}

}  // namespace fovea
