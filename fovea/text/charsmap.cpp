// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/charsmap.h"

#include <cstring>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

// A unit of the trie: the byte that leads to it (bits 0…7), whether a rule ends here (8), and how far its children are
// (10…30, times 256 with bit 9), by exclusive or with its own place. A rule's end has a child by byte 0 with bit 31,
// whose other bits are the place of the replacement.
constexpr uint32_t kIsValue = uint32_t{1} << 31;

bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
bool is_child_by(uint32_t unit, uint8_t byte) { return (unit & (kIsValue | 0xFF)) == byte; }
size_t distance(uint32_t unit) { return size_t{unit >> 10} << ((unit >> 9 & 1) * 8); }

uint32_t read_u32(const char* p) {
  const auto byte = [&](int i) { return uint32_t{static_cast<uint8_t>(p[i])}; };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view source) {
  FOVEA_CHECK_INPUT(bytes.size() > 4, source, ": the map has ", bytes.size(), " bytes, not even a trie's size");
  const size_t size = read_u32(bytes.data());
  FOVEA_CHECK_INPUT(size > 0 && size % 4 == 0, source, ": the size of the trie, ", size,
                    " bytes, is not a multiple of 4");
  FOVEA_CHECK_INPUT(size <= bytes.size() - 4, source, ": a trie of ", size, " bytes in a map of ", bytes.size(),
                    "; was the map cut off?");
  for (size_t i = 0; i < size; i += 4) units_.push_back(read_u32(bytes.data() + 4 + i));
  replacements_ = bytes.substr(4 + size);
  check_utf8(replacements_, source);
  FOVEA_CHECK_INPUT(replacements_.ends_with('\0'), source, ": the last replacement has no end; was the map cut off?");
  for (size_t place = 0; place < units_.size(); ++place) {
    const uint32_t unit = units_[place];
    if ((unit & kIsValue) != 0 || !has_value(unit)) continue;
    const size_t value = place ^ distance(unit);
    const bool points = value < units_.size() && (units_[value] & ~kIsValue) < replacements_.size();
    FOVEA_CHECK_INPUT(points && starts_character(replacements_[units_[value] & ~kIsValue]), source, ": unit ", place,
                      " of the trie points to no replacement");
  }
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  size_t children = distance(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const size_t place = children ^ byte;
    if (byte == 0 || place >= units_.size() || !is_child_by(units_[place], byte)) return std::nullopt;
    children = place ^ distance(units_[place]);
    if (has_value(units_[place])) return std::string_view(replacements_.data() + (units_[children] & ~kIsValue));
  }
  return std::nullopt;
}

std::string decode_base64(std::string_view text, std::string_view source) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  FOVEA_CHECK_INPUT(text.size() % 4 == 0, source, ": base64 of ", text.size(), " characters, not a multiple of 4");
  std::string out;
  out.reserve(text.size() / 4 * 3);
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pad = i >= text.size() - padding;
    const size_t digit = pad ? 0 : kDigits.find(text[i]);
    FOVEA_CHECK_INPUT(digit != std::string_view::npos, source, ": character ", i, " is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 0xFF);
  }
  out.erase(out.size() - padding);
  return out;
}

}  // namespace fovea::text
