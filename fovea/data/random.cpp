// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/random.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace fovea {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix(mix(mix(seed + kGolden) ^ (stream * kGolden + 1)) + (index + 1) * kGolden);
}

std::vector<int64_t> random_permutation(int64_t size, uint64_t seed, uint64_t stream) {
  std::vector<int64_t> out(static_cast<size_t>(size));
  std::iota(out.begin(), out.end(), int64_t{0});
  for (int64_t i = size - 1; i > 0; --i)
    std::swap(out[size_t(i)], out[size_t(random_below(i + 1, seed, stream, uint64_t(i)))]);
  return out;
}

}  // namespace fovea
