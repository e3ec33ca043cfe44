// Stepping through text that is known to be valid UTF-8: no checks, so inline and fast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fovea::text {

inline bool starts_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

// Bytes of the character whose first byte is `lead`.
inline size_t character_size(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `p`, which moves behind it.
inline char32_t next_character(const char*& p) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<uint8_t>(p[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return p += 1, lead;
  if (lead < 0xE0) {
    const char32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    return p += 2, c;
  }
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return p += 3, c;
  }
  const char32_t c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return p += 4, c;
}

inline char32_t character_at(const char* p) { return next_character(p); }

// Start of the character that ends before `p`.
inline const char* previous_character(const char* p) {
  do --p;
  while (!starts_character(*p));
  return p;
}

}  // namespace fovea::text
