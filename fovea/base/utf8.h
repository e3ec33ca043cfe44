// UTF-8, strictly: validation with the position of the first bad byte, decoding, and cutting a stream at whole
// characters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

// Offset in bytes of the first sequence that is not UTF-8, or npos where all of `bytes` is. Overlong forms, surrogates
// (U+D800..U+DFFF), values above U+10FFFF and a sequence cut off by the end are invalid; NUL is a character.
size_t find_invalid_utf8(std::string_view bytes);

// Throws Error(kInput) `source: invalid UTF-8 at byte 17 (0xff)`, followed by what the bytes look like instead (UTF-16,
// UTF-32, GB18030, Windows-1252, cut off) where that can be told. `source` names the file or argument.
void check_utf8(std::string_view bytes, std::string_view source);

// The code point that starts at `position`, which moves past it. `text` is meant to be valid (check_utf8); an invalid
// byte gives U+FFFD and moves on by one. Needs position < text.size().
char32_t decode_utf8(std::string_view text, size_t& position);

// Appends the bytes of `code_point`. Error(kArgument) for surrogates and values above U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

// The Unicode property White_Space.
inline bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

// Number of code points of a valid text.
size_t count_code_points(std::string_view text);

// Length in bytes of the longest prefix that does not end inside a character: what a stream may show now, while the
// rest waits for more bytes. Bytes that can never become a character count as whole, so that nothing waits forever.
size_t complete_utf8_prefix(std::string_view bytes);

}  // namespace fovea
