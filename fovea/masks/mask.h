// Which key may a query see? A mask is a typed value, never a bare boolean tensor, whose meaning differs between PyTorch's
// own functions.
//
//   Mask m = masks::document(ids) & masks::causal() & ~masks::block(hidden);
//
// Masks broadcast over batch and head, compose with & | ~ and combine with any score bias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/kernels/mask_rule.h"

namespace fovea {

class Mask {
 public:
  // One node of the composition: a leaf is a registered name with its numbers and tensors, or a user's own rule.
  struct Node {
    enum class Kind { kLeaf, kBoth, kEither, kInverse };
    Kind kind = Kind::kLeaf;
    std::string name;
    std::vector<int64_t> numbers;
    std::vector<at::Tensor> data;
    MaskRulePtr rule;  // a user's own
    std::shared_ptr<const Node> left, right;
  };

  Mask() = default;  // everything is visible
  explicit Mask(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}
  static Mask leaf(std::string name, std::vector<int64_t> numbers = {}, std::vector<at::Tensor> data = {});

  bool is_full() const { return node_ == nullptr; }
  const std::shared_ptr<const Node>& node() const { return node_; }

  friend Mask operator&(const Mask& left, const Mask& right);
  friend Mask operator|(const Mask& left, const Mask& right);
  Mask operator~() const;

  // A small text picture of one (batch, head): '#' visible, '.' hidden; rows are queries.
  std::string draw(int64_t queries, int64_t keys, int64_t b = 0, int64_t h = 0) const;
  // The visible share of all (query, key) pairs of one (batch, head): what a kernel will really compute.
  double density(int64_t queries, int64_t keys, int64_t b = 0, int64_t h = 0) const;

  // The form an operator's schema can carry: a description such as "(causal(0)&padding(;2))" and the tensors in order.
  // Throws for a user's rule, which no text can carry.
  std::string encode(std::vector<at::Tensor>& data) const;
  static Mask decode(std::string_view description, at::TensorList data);

 private:
  std::shared_ptr<const Node> node_;
};

namespace masks {

// Any (b, h, q, k) -> bool, inlined into its tile loop. What the callable captures must outlive the mask's use; several
// threads ask at the same time.
template <class F>
Mask rule(F f) {
  return Mask({.name = "rule", .rule = std::make_shared<LambdaRule<F>>(std::move(f))});
}
// With `cover`, (const Tile&) -> Cover, tiles can be skipped without asking for every pair.
template <class F, class CoverF>
Mask rule(F f, CoverF cover) {
  return Mask({.name = "rule", .rule = std::make_shared<LambdaRule<F, CoverF>>(std::move(f), std::move(cover))});
}

}  // namespace masks
}  // namespace fovea
