// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace fovea::text {
namespace {

struct Range {
  char32_t first, last;
};

// Punctuation that the package does not know, in ascending order.
constexpr Range kLatePunctuation[] = {
    {0x61D, 0x61D},     {0x9FD, 0xA76},     {0xC77, 0xC84},     {0x1B7D, 0x1B7E},
    {0x2E43, 0x2E5D},   {0x10EAD, 0x10F89}, {0x1144B, 0x1145D}, {0x11660, 0x116B9},
    {0x1183B, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16FE2}, {0x1E95E, 0x1E95F},
};

// Marks and decomposable characters younger than Unicode 9, in ascending order.
constexpr Range kYoungMarks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},     {0xB55, 0xB55},
    {0xC04, 0xC3C},     {0xCF3, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},
    {0xECE, 0xECE},     {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},
    {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10F85}, {0x11070, 0x11074}, {0x110C2, 0x110C2},
    {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x1182C, 0x11A99}, {0x11D31, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87},
    {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E030, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

// What the package holds for punctuation and Unicode has since moved elsewhere.
bool is_former_punctuation(char32_t c) { return c == 0x166D || c == 0x111C9; }

bool contains(const Range* begin, const Range* end, char32_t c) {
  const Range* range = std::lower_bound(begin, end, c, [](const Range& r, char32_t value) { return r.last < value; });
  return range != end && range->first <= c;
}

}  // namespace

std::optional<CategorySet> category_set(std::string_view name) {
  // In utf8proc's order of categories.
  static constexpr std::array<std::string_view, 30> kNames = {
      "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
      "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  CategorySet out = 0;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name || (name.size() == 1 && kNames[i][0] == name[0])) out |= CategorySet{1} << i;
  }
  if (out == 0) return std::nullopt;
  return out;
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  constexpr CategorySet kWord = kLetter | kMark | CategorySet{1} << UTF8PROC_CATEGORY_ND |
                                CategorySet{1} << UTF8PROC_CATEGORY_NL | CategorySet{1} << UTF8PROC_CATEGORY_PC;
  if (category_of(c) & kWord) return true;
  // Alphabetic though symbols by category: circled and squared letters; and the two joiners.
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

bool is_younger_than_forms(char32_t c) {
  return c >= 0x7FD && contains(std::begin(kYoungMarks), std::end(kYoungMarks), c);
}

bool is_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // letters since Unicode 12
  return c >= 0x300 && (category_of(c) & kMark) != 0 && !is_younger_than_forms(c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c == '_' || (c > ' ' && c < 0x7F && !is_word(c));
  if (is_former_punctuation(c)) return true;
  return (category_of(c) & kPunctuation) != 0 && !contains(std::begin(kLatePunctuation), std::end(kLatePunctuation), c);
}

}  // namespace fovea::text
