// Rotary positions in config.json: `rope_parameters`, or in older folders `rope_theta` and `rope_scaling`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "fovea/positions/rope_scaling.h"

namespace fovea {

// `positions` is the length that a folder means where it names no original one. Error(kInput) for a scaling, or a field
// of one, that is not built.
void read_rope(const nlohmann::json& config, int64_t positions, double& base, RopeScaling& scaling);
// As "rope_parameters".
void write_rope(nlohmann::json& config, double base, const RopeScaling& scaling);

}  // namespace fovea
