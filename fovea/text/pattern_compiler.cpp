// Compiles a pattern's tree, back to front, into the matcher's steps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/text/pattern.h"
#include "fovea/text/pattern_tree.h"

namespace fovea::text {

bool PatternTree::nullable() const {
  const auto is_nullable = [](const PatternTree& part) { return part.nullable(); };
  switch (kind) {
    case kSet:
      return least == 0;
    case kRepeat:
      return least == 0 || parts[0].nullable();
    case kLook:
      return true;
    case kSequence:
      return std::all_of(parts.begin(), parts.end(), is_nullable);
    case kChoice:
      return std::any_of(parts.begin(), parts.end(), is_nullable);
  }
  return true;
}

class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view source) : source_(source) {}

  Pattern compile(ParsedPattern parsed) {
    out_.sets_ = std::move(parsed.sets);
    out_.nodes_.emplace_back();  // accepts
    out_.start_ = compile(parsed.tree, 0);
    starts_.resize(out_.nodes_.size());
    out_.first_ = starts(out_.start_, 0);
    for (Node& node : out_.nodes_) {
      if (node.kind != Kind::kBranch) continue;
      for (const uint32_t branch : node.branches) node.starts.push_back(starts(branch, 0));
    }
    return std::move(out_);
  }

 private:
  using Node = Pattern::Node;
  using Kind = Pattern::Kind;
  using Tree = PatternTree;

  uint32_t emit(Node node) {
    constexpr size_t kMost = 20000;
    FOVEA_CHECK_INPUT(out_.nodes_.size() < kMost, source_,
                      ": the pattern is too large once its intervals are written out");
    out_.nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(out_.nodes_.size() - 1);
  }

  // The first step of `tree` followed by `next`.
  uint32_t compile(const Tree& tree, uint32_t next) {
    Node node;
    node.next = next;
    switch (tree.kind) {
      case Tree::kSet:
        node.kind = Kind::kSet;
        node.set = tree.set, node.least = tree.least, node.most = tree.most, node.greed = tree.greed;
        return emit(std::move(node));
      case Tree::kSequence:
        for (size_t i = tree.parts.size(); i-- > 0;) next = compile(tree.parts[i], next);
        return next;
      case Tree::kChoice:
        node.kind = Kind::kBranch;
        for (const Tree& part : tree.parts) node.branches.push_back(compile(part, next));
        return emit(std::move(node));
      case Tree::kLook:
        node.kind = Kind::kLook;
        node.negative = tree.negative;
        node.branches.push_back(compile(tree.parts[0], 0));
        return emit(std::move(node));
      case Tree::kRepeat:
        return compile_repeat(tree, next);
    }
    return next;
  }

  uint32_t compile_repeat(const Tree& tree, uint32_t after) {
    const auto choice = [&](uint32_t body) {
      Node node;
      node.kind = Kind::kBranch;
      node.branches = {body, after};
      if (tree.greed == PatternGreed::kLazy) std::swap(node.branches[0], node.branches[1]);
      return node;
    };
    uint32_t next = after;
    if (tree.most == UINT32_MAX) {
      next = emit(choice(0));  // the body leads back to it
      const uint32_t body = compile(tree.parts[0], next);
      out_.nodes_[next] = choice(body);
    } else {
      for (uint32_t i = tree.least; i < tree.most; ++i) next = emit(choice(compile(tree.parts[0], next)));
    }
    for (uint32_t i = 0; i < tree.least; ++i) next = compile(tree.parts[0], next);
    return next;
  }

  // First bytes with which a match from `index` on may start; all of them where it may be empty or nests deep.
  std::bitset<129> starts(uint32_t index, int depth) {
    std::bitset<129> out;
    const Node& node = out_.nodes_[index];
    if (node.kind == Kind::kAccept || node.kind == Kind::kLook || depth > 100) return out.set();
    if (starts_[index]) return *starts_[index];
    starts_[index] = out;  // a loop adds nothing to itself
    if (node.kind == Kind::kBranch) {
      for (const uint32_t branch : node.branches) out |= starts(branch, depth + 1);
    } else {
      for (size_t c = 0; c < 128; ++c) out[c] = out_.sets_[node.set].ascii[c];
      out[128] = true;
      if (node.least == 0) out |= starts(node.next, depth + 1);
    }
    starts_[index] = out;
    return out;
  }

  std::string source_;
  Pattern out_;
  std::vector<std::optional<std::bitset<129>>> starts_;
};

Pattern Pattern::parse(std::string_view pattern, std::string_view source) {
  return PatternCompiler(source).compile(parse_pattern(pattern, source));
}

Pattern Pattern::literal(std::string_view text, std::string_view source) {
  FOVEA_CHECK_INPUT(!text.empty(), source, ": an empty text to look for");
  return PatternCompiler(source).compile(literal_pattern(text));
}

}  // namespace fovea::text
