// The tokens of a vocabulary that start at a place in a text, shortest first: a trie whose nodes lie in one array, so
// that a step costs one look. Double array: Aoe, 1989; children are found by exclusive or.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::text {

class TokenTrie {
 public:
  static constexpr uint32_t kMostTokens = (uint32_t{1} << 23) - 1;

  TokenTrie() = default;
  // Token i, which may be empty (and is then never found), has the id i and scores[i]; of equal ones the last
  // counts. At most kMostTokens.
  TokenTrie(const std::vector<std::string_view>& tokens, const std::vector<double>& scores);

  // Calls found(size, id, score) for each token that starts `text`.
  template <class Found>
  void for_each_prefix(std::string_view text, const Found& found) const {
    const Node* nodes = nodes_.data();
    uint32_t base = nodes[0].base;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto label = static_cast<uint8_t>(text[i]);
      const Node& node = nodes[base ^ label];
      if (node.label != label) return;
      if (node.id != kNone) found(i + 1, uint32_t{node.id}, node.score);
      base = node.base;
    }
  }

 private:
  static constexpr uint32_t kNone = kMostTokens, kFree = 256;
  struct Node {
    uint32_t base = 0;  // the child by byte c is node base ^ c; no two nodes have the same base, so its label proves it
    uint32_t label : 9 = kFree;  // the byte that leads here
    uint32_t id : 23 = kNone;
    double score = 0;
  };
  struct Builder;

  std::vector<Node> nodes_;  // whole blocks of 256
};

}  // namespace fovea::text
