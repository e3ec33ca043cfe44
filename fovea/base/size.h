// Whether a model of a given size can be at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// factor · size, or the largest number where that overflows: a size that check_parameters() refuses.
inline int64_t times(int64_t factor, int64_t size) {
  int64_t out;
  return __builtin_mul_overflow(factor, size, &out) ? INT64_MAX : out;
}

// Before parameters are made: Error(kConfig) `stack: 1.2e+12 parameters need 4800 GB of memory, this machine has 24 GB`, where a
// mistyped size would end the process instead. `count` is a lower bound; a double, so that no product of sizes overflows.
void check_parameters(const char* what, double count);

}  // namespace fovea
