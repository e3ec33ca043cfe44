// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/mask.h"

#include <charconv>

#include "fovea/masks/registry.h"

namespace fovea {

void register_all_masks(MasksRegistry& registry);

const MasksRegistry& masks_registry() {
  static const MasksRegistry registry = [] {
    MasksRegistry r;
    register_all_masks(r);
    return r;
  }();
  return registry;
}

Mask Mask::leaf(std::string name, std::vector<int64_t> numbers, std::vector<at::Tensor> data) {
  return Mask({.name = std::move(name), .numbers = std::move(numbers), .data = std::move(data)});
}

Mask operator&(const Mask& left, const Mask& right) {
  if (left.is_full()) return right;
  if (right.is_full()) return left;
  return Mask({.kind = Mask::Node::Kind::kBoth, .left = left.node_, .right = right.node_});
}

Mask operator|(const Mask& left, const Mask& right) {
  if (left.is_full() || right.is_full()) return {};
  return Mask({.kind = Mask::Node::Kind::kEither, .left = left.node_, .right = right.node_});
}

Mask Mask::operator~() const {
  const auto inner = is_full() ? Mask::leaf("full").node_ : node_;
  return Mask({.kind = Node::Kind::kInverse, .left = inner});
}

namespace {

void encode_node(const Mask::Node& node, std::string& out, std::vector<at::Tensor>& data) {
  if (node.kind == Mask::Node::Kind::kInverse) {
    out += '~';
    encode_node(*node.left, out, data);
  } else if (node.kind != Mask::Node::Kind::kLeaf) {
    out += '(';
    encode_node(*node.left, out, data);
    out += node.kind == Mask::Node::Kind::kBoth ? '&' : '|';
    encode_node(*node.right, out, data);
    out += ')';
  } else {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, node.rule == nullptr,
                     "Mask::encode: a user's own rule cannot be carried by an operator's schema; call fovea::attention from C++");
    out += node.name + '(';
    for (size_t i = 0; i < node.numbers.size(); ++i) out += (i ? "," : "") + std::to_string(node.numbers[i]);
    out += ';' + std::to_string(node.data.size()) + ')';
    data.insert(data.end(), node.data.begin(), node.data.end());
  }
}

// Recursive descent over the text that encode_node writes.
class Decoder {
 public:
  Decoder(std::string_view text, at::TensorList data) : text_(text), data_(data) {}

  Mask run() {
    const Mask out = node(0);
    check(at_ == text_.size() && next_tensor_ == data_.size(), "trailing text or tensors");
    return out;
  }

 private:
  void check(bool good, const char* what) const {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, good, "Mask::decode: ", what, " at character ", at_, " of \"", text_, "\" with ", data_.size(),
                     " tensors");
  }
  bool take(char c) { return at_ < text_.size() && text_[at_] == c ? (++at_, true) : false; }
  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    check(error == std::errc(), "wanted a number");
    at_ = size_t(end - text_.data());
    return value;
  }
  Mask node(int depth) {
    check(depth < 100, "more than 100 levels");
    if (take('~')) return ~node(depth + 1);
    if (take('(')) {
      const Mask left = node(depth + 1);
      const bool both = take('&');
      check(both || take('|'), "wanted & or |");
      const Mask right = node(depth + 1);
      check(take(')'), "wanted )");
      return both ? left & right : left | right;
    }
    return leaf();
  }
  Mask leaf() {
    const size_t open = text_.find('(', at_);
    check(open != std::string_view::npos, "wanted name(");
    const std::string name(text_.substr(at_, open - at_));
    at_ = open + 1;
    std::vector<int64_t> numbers;
    while (!take(';')) {
      numbers.push_back(number());
      take(',');
    }
    const int64_t count = number();
    check(take(')') && count >= 0 && next_tensor_ + size_t(count) <= data_.size(), "wanted ) and enough tensors");
    std::vector<at::Tensor> tensors(data_.begin() + next_tensor_, data_.begin() + next_tensor_ + count);
    next_tensor_ += size_t(count);
    masks_registry().at(name);
    return Mask::leaf(name, std::move(numbers), std::move(tensors));
  }

  std::string_view text_;
  at::TensorList data_;
  size_t at_ = 0;
  size_t next_tensor_ = 0;
};

}  // namespace

std::string Mask::encode(std::vector<at::Tensor>& data) const {
  std::string out;
  if (node_) encode_node(*node_, out, data);
  return out;
}

Mask Mask::decode(std::string_view description, at::TensorList data) {
  return description.empty() ? Mask() : Decoder(description, data).run();
}

}  // namespace fovea
