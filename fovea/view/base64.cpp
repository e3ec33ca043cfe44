// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/base64.h"

#include <cstdint>

namespace fovea {

std::string base64(std::string_view bytes) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t j) { return i + j < bytes.size() ? uint32_t(uint8_t(bytes[i + j])) : 0u; };
    const uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kLetters[three >> 18];
    out += kLetters[three >> 12 & 63];
    out += i + 1 < bytes.size() ? kLetters[three >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kLetters[three & 63] : '=';
  }
  return out;
}

}  // namespace fovea
