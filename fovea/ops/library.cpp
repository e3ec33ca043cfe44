// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/library.h"

#include <ATen/Functions.h>

#include <limits>

namespace fovea {

std::string library_refuses(const AttentionCall& call, const Tensor& visible) {
  if (!call.query.device().is_cpu()) return "not on a CPU";
  if (call.query.scalar_type() != at::kFloat) return "not f32";
  if (!call.score.is_empty()) return "a score bias";
  if (call.soft_cap > 0) return "a soft cap";
  if (call.dropout > 0) return "dropout";
  if (call.shape.D != call.shape.E) return "values are not as wide as keys";
  if (call.query.numel() == 0 || call.shape.S == 0) return "an empty size";
  if (call.shape.S == 1) return "a single key, of which it hides NaN";
  if (call.query.stride(-1) != 1 || call.key.stride(-1) != 1 || call.value.stride(-1) != 1) return "an innermost stride that is not 1";
  if (may_be_blind(call, visible)) return "a query that sees nothing";
  // It multiplies what the mask hides by zero.
  if (visible.defined() && holds_nonfinite(call)) return "NaN or infinity may be hidden";
  return "";
}

Tensor library_attention(const AttentionCall& call, const Tensor& visible) {
  std::optional<Tensor> bias;
  const bool triangle = visible.defined() && call.shape.T == call.shape.S && call.shape.T > 1 && is_lower_triangle(visible);
  if (visible.defined() && !triangle)
    bias = at::zeros(visible.sizes(), call.query.options().requires_grad(false)).masked_fill_(visible.logical_not(), -std::numeric_limits<float>::infinity());
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(call.query, spread_heads(call.key, call.shape.H),
                                                                     spread_heads(call.value, call.shape.H), 0.0, triangle, bias, call.scale));
}

}  // namespace fovea
