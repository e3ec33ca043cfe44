// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/gpt2_split.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

enum Class : uint8_t { kOther, kLetters, kNumbers, kBlank };

constexpr std::array<Class, 128> make_ascii_classes() {
  std::array<Class, 128> out{};
  for (size_t c = 0; c < 128; ++c) {
    const size_t lower = c | 0x20;
    out[c] = lower >= 'a' && lower <= 'z'      ? kLetters
             : c >= '0' && c <= '9'            ? kNumbers
             : c == ' ' || (c >= 9 && c <= 13) ? kBlank
                                               : kOther;
  }
  return out;
}

constexpr std::array<Class, 128> kAscii = make_ascii_classes();

// Class of the character at `p`, which moves behind it.
inline Class next_class(const char*& p) {
  const auto byte = static_cast<uint8_t>(*p);
  if (byte < 0x80) return ++p, kAscii[byte];
  const char32_t c = next_character(p);
  if (is_white_space(c)) return kBlank;
  const CategorySet category = category_of(c);
  return category & kLetter ? kLetters : category & kNumber ? kNumbers : kOther;
}

// Length of 's 't 're 've 'm 'll 'd at the apostrophe `p`, or 0.
inline size_t contraction(const char* p, const char* end) {
  if (end - p < 2) return 0;
  const char a = p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  const char b = p[2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

inline const char* skip(Class wanted, const char* p, const char* end) {
  while (p < end) {
    const char* after = p;
    if (next_class(after) != wanted) break;
    p = after;
  }
  return p;
}

// A run of blanks gives its last one to the word behind it; \s+(?!\S) before \s+.
const char* blanks_end(const char* start, const char* p, const char* end) {
  const char* last = start;
  while (p < end) {
    const char* after = p;
    if (next_class(after) != kBlank) break;
    last = p;
    p = after;
  }
  return p == end || last == start ? p : last;
}

}  // namespace

const char* gpt2_word_end(const char* p, const char* end) {
  if (*p == '\'') {
    if (const size_t size = contraction(p, end)) return p + size;
  }
  const char* start = p;
  const bool space = *p == ' ';
  Class first = next_class(p);
  if (space && p < end) {
    const char* after = p;
    const Class second = next_class(after);
    if (second != kBlank) first = second, p = after;
  }
  return first == kBlank ? blanks_end(start, p, end) : skip(first, p, end);
}

void split_gpt2(const Piece& piece, PieceSink& next) {
  const char* begin = piece.text.data();
  const char* end = begin + piece.text.size();
  for (const char* p = begin; p < end;) {
    const char* word_end = gpt2_word_end(p, end);
    next.take(piece.part(static_cast<size_t>(p - begin), static_cast<size_t>(word_end - begin)));
    p = word_end;
  }
}

}  // namespace fovea::text
