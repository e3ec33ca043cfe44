// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/byte_alphabet.h"

#include <array>

#include "fovea/base/utf8.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x144> byte{};  // -1: none
};

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet make_alphabet() {
  Alphabet out;
  for (auto& byte : out.byte) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    out.character[static_cast<size_t>(byte)] = c;
    out.byte[c] = static_cast<int16_t>(byte);
  }
  return out;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_character(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<uint8_t> character_byte(char32_t c) {
  if (c >= kAlphabet.byte.size() || kAlphabet.byte[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.byte[c]);
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, byte_character(static_cast<uint8_t>(byte)));
  return out;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const auto byte = character_byte(next_character(p));
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
  }
  return out;
}

}  // namespace fovea::text
