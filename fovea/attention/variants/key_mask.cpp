// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/key_mask.h"

#include <ATen/ATen.h>

#include "fovea/base/check.h"
#include "fovea/ops/bind.h"

namespace fovea {
namespace {

void collect(const char* variant, const Mask::Node& node, const AttentionShape& shape, KeyMask& out) {
  if (node.kind == Mask::Node::Kind::kBoth) {
    collect(variant, *node.left, shape, out);
    collect(variant, *node.right, shape, out);
    return;
  }
  const bool leaf = node.kind == Mask::Node::Kind::kLeaf && node.rule == nullptr;
  if (leaf && node.name == "causal" && node.data.empty() && (node.numbers.at(0) == 0 || shape.T == shape.S)) {
    out.causal = true;
  } else if (leaf && node.name == "padding") {
    const AttentionShape one{.B = shape.B, .H = 1, .G = 1, .T = 1, .S = shape.S};
    const Tensor real = visible(Mask(node), one, 0, shape.B).view({shape.B, shape.S});
    out.real = out.real.defined() ? out.real.logical_and(real) : real;
  } else {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, leaf && node.name == "full", "attention variant \"", variant,
                     "\": it cannot hide single keys from single queries, as the mask ",
                     leaf ? "\"" + node.name + "\"" : std::string("of several parts or of one's own"),
                     " wants; it takes causal and padding, joined by &");
  }
}

}  // namespace

KeyMask key_mask(const char* variant, const Mask& mask, const AttentionShape& shape) {
  KeyMask out;
  if (!mask.is_full()) collect(variant, *mask.node(), shape, out);
  return out;
}

}  // namespace fovea
