// The kernels as a differentiable function of tensors: fused forward and backward, no tensor of all scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/ops/reference.h"

namespace fovea {

// Where the sequences of a packed batch begin. The call's tensors are then [1, H, tokens, width].
struct PackedOffsets {
  std::vector<int64_t> query, key;
};

// Why no kernel takes this call, or "" if one does.
std::string fused_refuses(const AttentionCall& call);
// The output [b, H, T, E], a view of [b, T, H, E] storage. Nothing: a hidden key may hold NaN or infinity, which only
// the reference keeps out. Has no second derivative.
std::optional<Tensor> fused_attention(const AttentionCall& call, const PackedOffsets* packed = nullptr);

}  // namespace fovea
