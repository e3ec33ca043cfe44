// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"

namespace fovea {
namespace {

using Range = std::pair<char32_t, char32_t>;  // both ends belong to it

template <size_t N>
bool is_in(char32_t c, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [c](const Range& r) { return c >= r.first && c <= r.second; });
}

// What Python's split() takes for a blank.
constexpr std::array<Range, 10> kBlanks = {{{0x09, 0x0D},
                                            {0x1C, 0x20},
                                            {0x85, 0x85},
                                            {0xA0, 0xA0},
                                            {0x1680, 0x1680},
                                            {0x2000, 0x200A},
                                            {0x2028, 0x2029},
                                            {0x202F, 0x202F},
                                            {0x205F, 0x205F},
                                            {0x3000, 0x3000}}};

// What `zh` cuts apart. The second range is as the package has it: its bounds were meant for characters beyond U+FFFF,
// but say this; so dashes and curly quotation marks stand alone, and rare characters beyond U+FFFF do not.
constexpr std::array<Range, 14> kApart = {{{0x2E80, 0x2EFF},
                                           {0x2001, 0x2A6D},
                                           {0x2F00, 0x2FDF},
                                           {0x2FF0, 0x303F},
                                           {0x3100, 0x312F},
                                           {0x31A0, 0x31BF},
                                           {0x31C0, 0x31EF},
                                           {0x3200, 0x4DB5},
                                           {0x4E00, 0x9FBB},
                                           {0xF900, 0xFA2D},
                                           {0xFA30, 0xFA6A},
                                           {0xFA70, 0xFAD9},
                                           {0xFE10, 0xFE1F},
                                           {0xFE30, 0xFE4F}}};

bool is_blank(char32_t c) { return is_in(c, kBlanks); }
bool stands_apart(char32_t c) { return is_in(c, kApart) || (c >= 0xFF00 && c <= 0xFFEF); }
bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_point(char32_t c) { return c == U'.' || c == U','; }
// ASCII's marks but for the apostrophe, the comma, the hyphen and the point.
bool is_symbol(char32_t c) {
  const bool mark =
      (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') || (c >= U'{' && c <= U'~');
  return mark && c != U'\'' && c != U'-' && !is_point(c);
}

std::u32string characters_of(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) out += decode_utf8(text, at);
  return out;
}

template <class Wanted>
std::u32string with_blanks_around(const std::u32string& text, Wanted wanted) {
  std::u32string out;
  for (const char32_t c : text) {
    if (wanted(c))
      out.append({U' ', c, U' '});
    else
      out += c;
  }
  return out;
}

// Left to right, pairs of neighbours that do not overlap: `cut` says whether blanks go around the second (or, with
// `first`, the first) of the two.
template <class Cut>
std::u32string cut_pairs(const std::u32string& text, Cut cut, bool first) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pair = i + 1 < text.size() && cut(text[i], text[i + 1]);
    if (pair && first)
      out.append({U' ', text[i], U' ', text[i + 1]});
    else if (pair)
      out.append({text[i], U' ', text[i + 1], U' '});
    else
      out += text[i];
    i += pair;
  }
  return out;
}

std::u32string cut_marks(std::u32string text) {
  text = with_blanks_around(text, is_symbol);
  text = cut_pairs(
      text, [](char32_t a, char32_t b) { return !is_digit(a) && is_point(b); }, false);
  text = cut_pairs(
      text, [](char32_t a, char32_t b) { return is_point(a) && !is_digit(b); }, true);
  return cut_pairs(
      text, [](char32_t a, char32_t b) { return is_digit(a) && b == U'-'; }, false);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::u32string cut_13a(std::string_view text) {
  std::string line(text);
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  replace_all(line, "\n", " ");
  for (const auto& [entity, character] :
       {std::pair{"&quot;", "\""}, std::pair{"&amp;", "&"}, std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}})
    replace_all(line, entity, character);
  return cut_marks(characters_of(" " + line + " "));
}

std::u32string without_outer_blanks(std::u32string text) {
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  size_t begin = 0;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  return text.substr(begin);
}

}  // namespace

WordSplit word_split(const std::string& name) {
  for (const WordSplit split : {WordSplit::k13a, WordSplit::kZh, WordSplit::kChar})
    if (name == name_of(split)) return split;
  throw Error(ErrorKind::kConfig,
              "unknown way to cut words \"" + name + "\"" + suggestion(name, {"13a", "zh", "char"}));
}

std::string_view name_of(WordSplit split) {
  return split == WordSplit::k13a ? "13a" : split == WordSplit::kZh ? "zh" : "char";
}

std::vector<std::string> split_words(std::string_view text, WordSplit split) {
  std::u32string cut;
  if (split == WordSplit::k13a) {
    // Blanks at the end go first, as the package has it: "-\n" there is no hyphenation.
    std::string trimmed;
    for (const char32_t c : without_outer_blanks(characters_of(text))) append_utf8(trimmed, c);
    cut = cut_13a(trimmed);
  } else if (split == WordSplit::kZh) {
    cut = cut_marks(with_blanks_around(without_outer_blanks(characters_of(text)), stands_apart));
  } else {
    cut = with_blanks_around(characters_of(text), [](char32_t) { return true; });
  }
  std::vector<std::string> out;
  bool inside = false;
  for (const char32_t c : cut) {
    const bool blank = is_blank(c);
    if (!blank && !inside) out.emplace_back();
    if (!blank) append_utf8(out.back(), c);
    inside = !blank;
  }
  return out;
}

WordSplit likely_split(const std::vector<std::string>& texts) {
  size_t apart = 0, all = 0;
  for (const std::string& text : texts)
    for (const char32_t c : visible_characters(text)) ++all, apart += stands_apart(c);
  return 2 * apart > all ? WordSplit::kZh : WordSplit::k13a;
}

std::u32string visible_characters(std::string_view text) {
  std::u32string out;
  for (const char32_t c : characters_of(text))
    if (!is_blank(c)) out += c;
  return out;
}

}  // namespace fovea
