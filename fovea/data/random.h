// Random numbers as a function of a counter: what a draw gives depends on (seed, stream, index) alone, never on what
// was drawn before, on the platform or on the standard library. So the order of training data needs no stored state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fovea {

// 64 uniform bits: a chain of SplitMix64's finaliser (Steele et al., "Fast splittable pseudorandom number generators",
// 2014) over the three numbers.
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);

// Uniform in [0, bound); bound ≥ 1. The bias of the remainder is below bound / 2⁶⁴.
inline int64_t random_below(int64_t bound, uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<int64_t>(random_bits(seed, stream, index) % static_cast<uint64_t>(bound));
}

// 0 … size − 1 in random order (Fisher-Yates).
std::vector<int64_t> random_permutation(int64_t size, uint64_t seed, uint64_t stream);

}  // namespace fovea
