// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/token_trie.h"

#include <algorithm>
#include <numeric>

namespace fovea::text {

// Places nodes breadth first. Only the youngest blocks are searched for room: old ones have little left.
struct TokenTrie::Builder {
  static constexpr uint32_t kBlock = 256, kOpenBlocks = 16;

  // Tokens [begin, end) in sorted order share their first `depth` bytes, which lead to `node`.
  struct Range {
    size_t begin, end, depth;
    uint32_t node;
  };

  std::vector<Node>& nodes;
  std::vector<bool> based;          // whether a node has this base
  std::vector<uint32_t> open_next;  // ring of free places in open blocks, by place; 0, the root, is its anchor
  std::vector<uint32_t> open_previous;

  explicit Builder(std::vector<Node>& nodes) : nodes(nodes) {
    add_block();
    based[0] = true;  // nobody's: what leaves have, so that no label fits below them
  }

  void unlink(uint32_t place) {
    open_next[open_previous[place]] = open_next[place];
    open_previous[open_next[place]] = open_previous[place];
  }

  void add_block() {
    const auto begin = static_cast<uint32_t>(nodes.size());
    nodes.resize(begin + kBlock);
    based.resize(begin + kBlock);
    open_next.resize(begin + kBlock);
    open_previous.resize(begin + kBlock);
    for (uint32_t place = std::max(begin, uint32_t{1}); place < begin + kBlock; ++place) {
      open_previous[place] = open_previous[0];
      open_next[place] = 0;
      open_next[open_previous[0]] = place;
      open_previous[0] = place;
    }
    if (begin < kOpenBlocks * kBlock) return;
    const uint32_t old = begin - kOpenBlocks * kBlock;
    for (uint32_t place = std::max(old, uint32_t{1}); place < old + kBlock; ++place) {
      if (nodes[place].label == kFree) unlink(place);
    }
  }

  bool fits(uint32_t base, const std::vector<uint8_t>& labels) const {
    if (based[base]) return false;
    return std::all_of(labels.begin(), labels.end(),
                       [&](uint8_t label) { return (base ^ label) != 0 && nodes[base ^ label].label == kFree; });
  }

  // A base for children by `labels`.
  uint32_t find_base(const std::vector<uint8_t>& labels) {
    for (uint32_t place = open_next[0]; place != 0; place = open_next[place]) {
      if (fits(place ^ labels[0], labels)) return place ^ labels[0];
    }
    const auto fresh = static_cast<uint32_t>(nodes.size());
    add_block();
    return fresh;
  }

  void build(const std::vector<std::string_view>& tokens, const std::vector<uint32_t>& order,
             const std::vector<double>& scores) {
    std::vector<Range> ranges = {{0, order.size(), 0, 0}};
    std::vector<uint8_t> labels;
    std::vector<size_t> ends;
    for (size_t next = 0; next < ranges.size(); ++next) {
      Range range = ranges[next];
      for (; range.begin < range.end && tokens[order[range.begin]].size() == range.depth; ++range.begin) {
        nodes[range.node].id = order[range.begin];
        nodes[range.node].score = scores[order[range.begin]];
      }
      labels.clear(), ends.clear();
      for (size_t i = range.begin; i < range.end; ++i) {
        const auto label = static_cast<uint8_t>(tokens[order[i]][range.depth]);
        if (labels.empty() || labels.back() != label) labels.push_back(label), ends.push_back(i);
        ends.back() = i + 1;
      }
      if (labels.empty()) continue;
      const uint32_t base = find_base(labels);
      based[base] = true;
      nodes[range.node].base = base;
      for (size_t i = 0; i < labels.size(); ++i) {
        const uint32_t place = base ^ labels[i];
        nodes[place].label = labels[i];
        unlink(place);
        ranges.push_back({i == 0 ? range.begin : ends[i - 1], ends[i], range.depth + 1, place});
      }
    }
  }
};

TokenTrie::TokenTrie(const std::vector<std::string_view>& tokens, const std::vector<double>& scores) {
  std::vector<uint32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tokens[a] < tokens[b]; });
  Builder(nodes_).build(tokens, order, scores);
}

}  // namespace fovea::text
