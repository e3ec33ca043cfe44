// Properties of code points, as far as tokenizers ask for them. General categories come from utf8proc (Unicode 15 in
// 2.8): characters assigned later count as unassigned.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utf8proc.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "fovea/base/utf8.h"

namespace fovea::text {

// A set of general categories: bit n stands for utf8proc's category n.
using CategorySet = uint32_t;

inline CategorySet category_of(char32_t c) {
  return CategorySet{1} << utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->category;
}

inline constexpr CategorySet kLetter = 0b11111u << UTF8PROC_CATEGORY_LU;         // Lu Ll Lt Lm Lo
inline constexpr CategorySet kMark = 0b111u << UTF8PROC_CATEGORY_MN;             // Mn Mc Me
inline constexpr CategorySet kNumber = 0b111u << UTF8PROC_CATEGORY_ND;           // Nd Nl No
inline constexpr CategorySet kPunctuation = 0b1111111u << UTF8PROC_CATEGORY_PC;  // Pc Pd Ps Pe Pi Pf Po

// "L", "Lu", "N" … as in \p{…}; nothing for a name that is not a general category.
std::optional<CategorySet> category_set(std::string_view name);

inline bool is_letter(char32_t c) { return (category_of(c) & kLetter) != 0; }
inline bool is_number(char32_t c) { return (category_of(c) & kNumber) != 0; }

// \w of UTS 18: letters, marks, decimal and letter-like numbers, connectors, joiners.
bool is_word(char32_t c);

// The package normalises by the tables of Unicode 9: what came later has neither combining class nor decomposition
// there. True for those among the later characters that have one today.
bool is_younger_than_forms(char32_t c);

// Marks (M*) of Unicode 9.
bool is_mark(char32_t c);

// ASCII punctuation and symbols, and what was punctuation (P*) when the `tokenizers` package froze its table: later
// additions to Unicode are missing there, so they are missing here.
bool is_punctuation(char32_t c);

}  // namespace fovea::text
