// Hashing for the tables of this room: short strings and pairs of ids. Not for hostile keys: tables grow with their
// file, not with input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace fovea::text {

// Both halves of the 128-bit product: every input bit reaches every output bit.
inline uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Eight bytes of each step come from the text; a tail shorter than that is read from both ends, overlapping.
inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15, kB = 0xD6E8FEB86659FD93;
  const char* p = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = left * kB;
  uint64_t word = 0;
  while (left > 8) {
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, kA);
    p += 8, left -= 8;
  }
  if (left >= 4) {
    uint32_t low = 0, high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + left - 4, 4);
    word = uint64_t{high} << 32 | low;
  } else if (left > 0) {
    word = uint64_t{static_cast<uint8_t>(p[0])} << 16 | uint64_t{static_cast<uint8_t>(p[left / 2])} << 8 |
           static_cast<uint8_t>(p[left - 1]);
  } else {
    word = 0;
  }
  return mix(hash ^ word, kA ^ kB);
}

// The smallest power of two that keeps `entries` at most half full.
inline size_t table_size(size_t entries) {
  size_t size = 16;
  while (size < 2 * entries) size *= 2;
  return size;
}

}  // namespace fovea::text
