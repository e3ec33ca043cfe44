// The byte-level alphabet of GPT-2: every byte has a printable character, so that a vocabulary of strings can hold any
// bytes. Printable Latin-1 stands for itself, the other 68 bytes for U+0100 onwards, in order (a blank is "Ġ").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fovea::text {

char32_t byte_character(uint8_t byte);
// The byte that `c` stands for, if any.
std::optional<uint8_t> character_byte(char32_t c);

// "é" -> "Ã©".
std::string bytes_to_alphabet(std::string_view bytes);
// The way back; nothing where a character stands for no byte. `text` must be valid UTF-8.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace fovea::text
