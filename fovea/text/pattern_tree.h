// What a pattern says, before it becomes the matcher's steps: between pattern_parser.cpp and pattern_compiler.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "fovea/text/pattern.h"

namespace fovea::text {

struct PatternTree {
  enum Kind { kSet, kSequence, kChoice, kRepeat, kLook } kind = kSet;
  uint32_t set = 0, least = 1, most = 1;  // kSet, kRepeat: how often
  PatternGreed greed = PatternGreed::kGreedy;
  bool negative = false;  // kLook
  std::vector<PatternTree> parts;

  // Whether it can match without taking a character.
  bool nullable() const;
};

struct ParsedPattern {
  PatternTree tree;
  std::vector<CharacterSet> sets;
};

ParsedPattern parse_pattern(std::string_view pattern, std::string_view source);
ParsedPattern literal_pattern(std::string_view text);

}  // namespace fovea::text
