// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/bind.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "fovea/masks/registry.h"
#include "fovea/scores/registry.h"

namespace fovea {
namespace {

MaskRulePtr bind_node(const Mask::Node& node, const AttentionShape& shape, std::vector<at::Tensor>& storage) {
  switch (node.kind) {
    case Mask::Node::Kind::kBoth: return both(bind_node(*node.left, shape, storage), bind_node(*node.right, shape, storage));
    case Mask::Node::Kind::kEither: return either(bind_node(*node.left, shape, storage), bind_node(*node.right, shape, storage));
    case Mask::Node::Kind::kInverse: return inverse(bind_node(*node.left, shape, storage));
    default: break;
  }
  if (node.rule) return node.rule;
  std::vector<ArrayView> views;
  for (const auto& tensor : node.data) views.push_back(view_of(tensor, storage));
  return masks_registry().at(node.name).bind(node.numbers, views, shape);
}

void collect_data(const Mask::Node* node, std::vector<at::Tensor>& out) {
  if (node == nullptr) return;
  out.insert(out.end(), node->data.begin(), node->data.end());
  collect_data(node->left.get(), out);
  collect_data(node->right.get(), out);
}

// A picture is asked for without batch and head counts: take the smallest that the mask's data accept.
at::Tensor visible_somewhere(const Mask& mask, int64_t queries, int64_t keys, int64_t b, int64_t h) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, queries >= 0 && keys >= 0 && b >= 0 && h >= 0, "Mask: asked for ", queries,
                   " queries, ", keys, " keys, batch ", b, ", head ", h, "; none may be negative");
  std::vector<at::Tensor> data;
  collect_data(mask.node().get(), data);
  std::vector<int64_t> batches{b + 1}, heads{h + 1};
  for (const auto& tensor : data) {
    if (tensor.dim() > 0 && tensor.size(0) > b) batches.push_back(tensor.size(0)), heads.push_back(tensor.size(0));
    if (tensor.dim() > 1 && tensor.size(1) > h) heads.push_back(tensor.size(1));
  }
  std::optional<Error> first;
  for (const int64_t batch : batches) {
    for (const int64_t head : heads) {
      try {
        const auto out = visible(mask, {.B = batch, .H = head, .T = queries, .S = keys}, b, 1);
        return out[0][out.size(1) == 1 ? 0 : h];  // [T, S]
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
  }
  throw *first;
}

}  // namespace

ArrayView view_of(const at::Tensor& tensor, std::vector<at::Tensor>& storage, at::ScalarType floating) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, tensor.defined(), "a mask or score was made from an undefined tensor");
  FOVEA_CHECK(tensor.dim() <= 4, "a mask's or score's tensor has shape ", tensor.sizes(), ", wanted at most four axes");
  const auto type = tensor.scalar_type();
  const bool is_integer = at::isIntegralType(type, /*includeBool=*/false);
  FOVEA_CHECK(is_integer || type == at::kBool || at::isFloatingType(type), "no view of type ", toString(type));
  storage.push_back(tensor.detach().to(at::kCPU, type == at::kBool ? at::kBool : is_integer ? at::kLong : floating));
  const at::Tensor& seen = storage.back();
  ArrayView view{seen.data_ptr(), type == at::kBool ? ViewType::kBool : is_integer ? ViewType::kInt64 : ViewType::kFloat, int(seen.dim()), {1, 1, 1, 1}, {}};
  std::copy(seen.sizes().begin(), seen.sizes().end(), view.size);
  std::copy(seen.strides().begin(), seen.strides().end(), view.stride);
  return view;
}

Bound<MaskRulePtr> bind_mask(const Mask& mask, const AttentionShape& shape) {
  Bound<MaskRulePtr> out;
  out.object = mask.is_full() ? full_rule() : bind_node(*mask.node(), shape, out.storage);
  return out;
}

Bound<ScoreVisitorPtr> bind_score(const Score::Term& term, double scale, const AttentionShape& shape) {
  Bound<ScoreVisitorPtr> out;
  std::vector<ArrayView> views;
  for (const auto& tensor : term.data) views.push_back(view_of(tensor, out.storage));
  out.object = term.user ? term.user->visitor(std::move(views)) : scores_registry().at(term.name).bind(term.numbers, views, scale, shape);
  return out;
}

at::Tensor visible(const Mask& mask, const AttentionShape& shape, int64_t first, int64_t count) {
  const auto bound = bind_mask(mask, shape);
  const MaskRule& rule = *bound.object;
  const int64_t batches = rule.depends_on_batch() ? count : 1, heads = rule.depends_on_head() ? shape.H : 1;
  auto out = at::empty({batches, heads, shape.T, shape.S}, at::kBool);
  if (out.numel() == 0) return out;
  auto* data = static_cast<uint8_t*>(out.data_ptr());
  // A user's rule may throw; at::parallel_for hands the exception on.
  at::parallel_for(0, batches * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      rule.fill({first + i / heads, i % heads, 0, shape.T, 0, shape.S}, data + i * shape.T * shape.S, shape.S);
  });
  return out;
}

std::string Mask::draw(int64_t queries, int64_t keys, int64_t b, int64_t h) const {
  const auto picture = visible_somewhere(*this, queries, keys, b, h).contiguous();
  std::string out;
  for (int64_t q = 0; q < queries; ++q) {
    for (int64_t k = 0; k < keys; ++k) out += picture.data_ptr<bool>()[q * keys + k] ? '#' : '.';
    out += '\n';
  }
  return out;
}

double Mask::density(int64_t queries, int64_t keys, int64_t b, int64_t h) const {
  return queries == 0 || keys == 0 ? 0.0 : visible_somewhere(*this, queries, keys, b, h).to(at::kDouble).mean().item<double>();
}

}  // namespace fovea
