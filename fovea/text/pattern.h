// The part of the regular expression language that tokenizer.json files use, with the meaning it has there (Oniguruma,
// Ruby syntax): alternatives, groups, sets, \s \d \w \p{category}, greedy, lazy and possessive repeats, look-ahead,
// (?i:…) over ASCII. Everything else is an error that names the construct, never a guess. A backtracking matcher of our
// own, because what \s and \w mean and which Unicode it knows must not depend on a library's version.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/unicode.h"

namespace fovea::text {

// A set of characters.
struct CharacterSet {
  struct Range {
    char32_t first, last;
  };
  std::vector<Range> ranges;
  CategorySet categories = 0;
  bool white_space = false, not_white_space = false, word = false, not_word = false;
  bool negated = false;
  std::bitset<128> ascii;  // the answer for ASCII, negation included; filled by finish()

  void finish();
  bool contains(char32_t c) const { return c < 0x80 ? ascii[c] : contains_slowly(c); }
  bool contains_slowly(char32_t c) const;
};

enum class PatternGreed : uint8_t { kGreedy, kLazy, kPossessive };

class Pattern {
 public:
  struct Match {
    size_t begin, end;  // bytes
  };
  static constexpr size_t npos = std::string_view::npos;

  // Error(kInput) `source: the pattern "…" …` for what is not supported, malformed, or able to match nothing at all.
  static Pattern parse(std::string_view pattern, std::string_view source);
  // Matches exactly `text`, which must not be empty.
  static Pattern literal(std::string_view text, std::string_view source);

  // The first match that starts at or after `from`; begin is npos where there is none. `text` must be valid UTF-8 and
  // is all that look-ahead sees. Error(kInput) where a repeated group would nest too deep or be tried too often.
  Match find(std::string_view text, size_t from) const;

 private:
  friend class PatternCompiler;
  enum class Kind : uint8_t { kAccept, kSet, kBranch, kLook };
  // One step of the program; `next` is the step after it.
  struct Node {
    Kind kind = Kind::kAccept;
    PatternGreed greed = PatternGreed::kGreedy;
    bool negative = false;                  // kLook
    uint32_t set = 0, least = 1, most = 1;  // kSet: repeats of one character; UINT32_MAX: no limit
    uint32_t next = 0;
    std::vector<uint32_t> branches;        // kBranch: in order of preference; kLook: its body
    std::vector<std::bitset<129>> starts;  // kBranch: first bytes each may start with; bit 128: any beyond ASCII
  };
  struct Run;

  std::vector<Node> nodes_;  // node 0 accepts
  std::vector<CharacterSet> sets_;
  uint32_t start_ = 0;
  std::bitset<129> first_;
};

}  // namespace fovea::text
