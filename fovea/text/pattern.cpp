// The matcher; pattern_parser.cpp builds its program.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/pattern.h"

#include <algorithm>

#include "fovea/base/check.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {

bool CharacterSet::contains_slowly(char32_t c) const {
  bool inside = categories != 0 && (category_of(c) & categories) != 0;
  for (size_t i = 0; !inside && i < ranges.size(); ++i) inside = c >= ranges[i].first && c <= ranges[i].last;
  if (white_space || not_white_space) inside |= is_white_space(c) ? white_space : not_white_space;
  if (word || not_word) {
    // Oniguruma's \w differs from UTS 18 in these few.
    const bool latin_number = c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
    const bool joiner = c == 0x200C || c == 0x200D;
    inside |= latin_number || (is_word(c) && !joiner) ? word : not_word;
  }
  return inside != negated;
}

void CharacterSet::finish() {
  for (char32_t c = 0; c < 128; ++c) ascii[c] = contains_slowly(c);
}

// One attempt at one position. Only a repeated group recurses per repeat; all else is bounded by the pattern.
struct Pattern::Run {
  const Pattern& pattern;
  const char* end;
  int depth = 0;
  int64_t steps = 0;

  // End of the match that continues at `node`, or null.
  const char* run(uint32_t node, const char* p);

 private:
  const char* repeat(const Node& node, const char* p);
  const char* branch(const Node& node, const char* p);
  const char* consume(const Node& node, const char* p, uint32_t most, uint32_t& count) const;
};

const char* Pattern::Run::consume(const Node& node, const char* p, uint32_t most, uint32_t& count) const {
  const CharacterSet& set = pattern.sets_[node.set];
  while (count < most && p < end) {
    const char* after = p;
    if (!set.contains(next_character(after))) break;
    p = after;
    ++count;
  }
  return p;
}

const char* Pattern::Run::repeat(const Node& node, const char* p) {
  uint32_t count = 0;
  if (node.greed == PatternGreed::kLazy) {
    p = consume(node, p, node.least, count);
    if (count < node.least) return nullptr;
    while (true) {
      if (const char* found = run(node.next, p)) return found;
      const uint32_t before = count;
      p = consume(node, p, std::min(node.most, count + 1), count);
      if (count == before) return nullptr;
    }
  }
  p = consume(node, p, node.most, count);
  if (count < node.least) return nullptr;
  if (node.greed == PatternGreed::kPossessive || node.next == 0) return run(node.next, p);
  while (true) {
    if (const char* found = run(node.next, p)) return found;
    if (count == node.least) return nullptr;
    p = previous_character(p);
    --count;
  }
}

const char* Pattern::Run::branch(const Node& node, const char* p) {
  const size_t first = p == end ? 129 : std::min<size_t>(static_cast<uint8_t>(*p), 128);
  for (size_t i = 0; i < node.branches.size(); ++i) {
    if (first < 129 && !node.starts[i][first]) continue;
    if (const char* found = run(node.branches[i], p)) return found;
  }
  return nullptr;
}

const char* Pattern::Run::run(uint32_t index, const char* p) {
  constexpr int kDeepest = 5000;
  FOVEA_CHECK_INPUT(++depth < kDeepest, "a tokenizer's pattern repeats a group more than ", kDeepest,
                    " times in one word");
  constexpr int64_t kMostSteps = 1'000'000;  // (a*)*b tries every way to cut a word
  FOVEA_CHECK_INPUT(++steps < kMostSteps, "a tokenizer's pattern takes more than ", kMostSteps,
                    " steps at one place of the text");
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth};
  while (true) {
    const Node& node = pattern.nodes_[index];
    switch (node.kind) {
      case Kind::kAccept:
        return p;
      case Kind::kBranch:
        return branch(node, p);
      case Kind::kLook:
        if ((run(node.branches[0], p) != nullptr) == node.negative) return nullptr;
        break;
      case Kind::kSet:
        if (node.least != 1 || node.most != 1) return repeat(node, p);
        if (p == end || !pattern.sets_[node.set].contains(next_character(p))) return nullptr;
        break;
    }
    index = node.next;
  }
}

Pattern::Match Pattern::find(std::string_view text, size_t from) const {
  Run run{*this, text.data() + text.size()};
  for (const char* p = text.data() + from; p < run.end; p += character_size(*p)) {
    if (!first_[std::min<size_t>(static_cast<uint8_t>(*p), 128)]) continue;
    run.steps = 0;
    if (const char* end = run.run(start_, p))
      return {static_cast<size_t>(p - text.data()), static_cast<size_t>(end - text.data())};
  }
  return {npos, npos};
}

}  // namespace fovea::text
