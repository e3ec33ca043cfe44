// Where the kernels' counter-based dropout takes its seed from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// 64 bits of LibTorch's CPU generator: torch::manual_seed reproduces them.
int64_t draw_seed();

}  // namespace fovea
