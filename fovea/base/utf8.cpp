// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "fovea/base/check.h"

namespace fovea {
namespace {

constexpr size_t npos = std::string_view::npos;

uint8_t byte_at(std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }
bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The sequence at one position: its length and value where it is whole, and how many of its bytes are right so far.
struct Sequence {
  size_t wanted = 0;   // length announced by the first byte; 0: that byte starts nothing
  size_t matched = 0;  // leading bytes that fit
  char32_t value = 0;
  bool whole() const { return wanted > 0 && matched == wanted; }
};

// Unicode 15, table 3-7: the second byte's range depends on the first, which excludes overlong forms, surrogates and
// values above U+10FFFF.
Sequence sequence_at(std::string_view bytes, size_t position) {
  const uint8_t first = byte_at(bytes, position);
  if (first < 0x80) return {1, 1, first};
  if (first < 0xC2 || first > 0xF4) return {};
  Sequence out;
  out.wanted = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  out.matched = 1;
  out.value = first & (0x7F >> out.wanted);
  uint8_t low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (; out.matched < out.wanted && position + out.matched < bytes.size(); ++out.matched) {
    const uint8_t next = byte_at(bytes, position + out.matched);
    if (next < low || next > high) break;
    out.value = (out.value << 6) | (next & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return out;
}

// Counts that tell encodings apart. A GB18030 pair has a trail byte in 0x40..0xFE; Chinese text has most of them above
// 0xA0, whereas in Windows-1252 a letter with an accent usually stands between ASCII letters.
struct HighBytes {
  size_t pairs = 0, high_pairs = 0, lone = 0, bad = 0;
};

HighBytes count_high_bytes(std::string_view bytes) {
  HighBytes out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t byte = byte_at(bytes, i);
    if (byte < 0x80) continue;
    const uint8_t next = i + 1 < bytes.size() ? byte_at(bytes, i + 1) : 0;
    if (next < 0x80) ++out.lone;
    const bool four = next >= 0x30 && next <= 0x39 && i + 3 < bytes.size() && byte_at(bytes, i + 2) > 0x80;
    if (byte == 0x80 || byte == 0xFF || (!four && (next < 0x40 || next == 0x7F || next == 0xFF))) {
      ++out.bad;
      continue;
    }
    ++out.pairs;
    if (next > 0xA0) ++out.high_pairs;
    i += four ? 3 : 1;
  }
  return out;
}

// Whether what is left of a line holds pairs of GB18030 alone beside ASCII, two or more, and is no UTF-8 for the most.
bool is_gb18030_line(std::string_view bytes) {
  bytes = bytes.substr(0, std::min(bytes.find('\n'), size_t{1} << 16));
  size_t whole = 0;  // bytes of UTF-8's characters beyond ASCII
  for (size_t i = 0; i < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, i);
    if (sequence.whole() && sequence.wanted > 1) whole += sequence.wanted;
    i += sequence.whole() ? sequence.wanted : 1;
  }
  const HighBytes count = count_high_bytes(bytes);
  return count.pairs >= 2 && count.bad == 0 && 2 * count.high_pairs > count.pairs && whole < count.pairs;
}

std::string hint(std::string_view bytes, size_t position) {
  const auto starts_with = [&](std::string_view mark) { return bytes.substr(0, mark.size()) == mark; };
  using namespace std::string_view_literals;
  if (starts_with("\xFF\xFE\0\0"sv) || starts_with("\0\0\xFE\xFF"sv))
    return "; it begins like UTF-32: convert it to UTF-8";
  if (starts_with("\xFF\xFE") || starts_with("\xFE\xFF")) return "; it begins like UTF-16: convert it to UTF-8";
  const Sequence sequence = sequence_at(bytes, position);
  if (sequence.matched > 0 && position + sequence.matched == bytes.size()) return "; the last character is cut off";
  const auto is_high = [](char c) { return static_cast<uint8_t>(c) >= 0x80; };
  // UTF-8 came before: one bad place, or from here on another text.
  if (std::any_of(bytes.begin(), bytes.begin() + position, is_high))
    return is_gb18030_line(bytes.substr(position)) ? "; this line may be GB18030 (GBK): convert it to UTF-8" : "";
  const HighBytes count = count_high_bytes(bytes.substr(position, size_t{1} << 16));
  if (count.pairs > 0 && count.bad <= 1 && 2 * count.high_pairs > count.pairs)
    return "; it may be GB18030 (GBK): convert it to UTF-8";
  if (count.lone > 0 && 2 * count.lone >= count.pairs) return "; it may be Windows-1252 (Latin-1): convert it to UTF-8";
  return "";
}

}  // namespace

size_t find_invalid_utf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint64_t eight;
    while (i + sizeof eight <= bytes.size()) {  // ASCII, eight bytes at a time
      std::memcpy(&eight, bytes.data() + i, sizeof eight);
      if (eight & 0x8080808080808080ull) break;
      i += sizeof eight;
    }
    if (i == bytes.size()) break;
    const Sequence sequence = sequence_at(bytes, i);
    if (!sequence.whole()) return i;
    i += sequence.wanted;
  }
  return npos;
}

void check_utf8(std::string_view bytes, std::string_view source) {
  const size_t position = find_invalid_utf8(bytes);
  if (position == npos) return;
  char hex[8];
  std::snprintf(hex, sizeof hex, "0x%02x", byte_at(bytes, position));
  throw Error(ErrorKind::kInput,
              detail::concat(source, ": invalid UTF-8 at byte ", position, " (", hex, ")", hint(bytes, position)));
}

char32_t decode_utf8(std::string_view text, size_t& position) {
  const Sequence sequence = sequence_at(text, position);
  position += sequence.whole() ? sequence.wanted : 1;
  return sequence.whole() ? sequence.value : U'\uFFFD';
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto c = static_cast<uint32_t>(code_point);
  FOVEA_CHECK(c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF), "code point ", c,
              " is a surrogate or above 1114111 (U+10FFFF)");
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += !is_continuation(static_cast<uint8_t>(c));
  return count;
}

size_t complete_utf8_prefix(std::string_view bytes) {
  // Only the last three bytes can belong to a character that is still to be completed.
  for (size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const size_t position = bytes.size() - back;
    if (is_continuation(byte_at(bytes, position))) continue;
    const Sequence sequence = sequence_at(bytes, position);
    return sequence.matched == back && sequence.matched < sequence.wanted ? position : bytes.size();
  }
  return bytes.size();
}

}  // namespace fovea
