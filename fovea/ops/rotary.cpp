// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/rotary.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "fovea/kernels/dispatch.h"

namespace fovea {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kTurnedAThread = 1 << 14;

// [..., R] with the members of each pair exchanged.
Tensor swapped_pairs(const Tensor& x, bool interleaved) {
  return interleaved ? x.unflatten(-1, {-1, 2}).flip(-1).flatten(-2) : x.unflatten(-1, {2, -1}).flip(-2).flatten(-2);
}

Tensor composed_rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool interleaved) {
  const int64_t turned = cosine.size(-1);
  const Tensor wide = x.slice(-1, 0, turned).to(cosine.scalar_type());
  const Tensor y = (wide * cosine + swapped_pairs(wide, interleaved) * sine).to(x.scalar_type());
  return turned == x.size(-1) ? y : at::cat({y, x.slice(-1, turned)}, -1);
}

bool has_rotary_kernel(const Tensor& x, const Tensor& cosine) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         cosine.scalar_type() == at::kFloat && x.numel() > 0;
}

// [B, heads, T, D] in [B, T, heads, D] storage, as projections have it.
Tensor empty_by_token(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options().requires_grad(false))
      .transpose(1, 2);
}

// Both outputs; `back` turns the other way.
std::array<Tensor, 2> run_rotary(std::array<Tensor, 2> in, const Tensor& cosine, const Tensor& sine, bool interleaved,
                                 bool back) {
  std::array<Tensor, 2> out;
  const int64_t B = in[0].size(0), T = in[0].size(2), turned = cosine.size(-1);
  for (size_t i = 0; i < 2; ++i) {
    if (in[i].stride(3) != 1) in[i] = in[i].contiguous();
    out[i] = empty_by_token(in[i]);
  }
  const Number type = in[0].scalar_type() == at::kFloat ? Number::kFloat : Number::kBFloat16;
  const bool by_row = cosine.dim() == 4 && cosine.size(0) > 1;
  const float *cosines = cosine.const_data_ptr<float>(), *sines = sine.const_data_ptr<float>();
  const int64_t a_token = (in[0].size(1) + in[1].size(1)) * in[0].size(3);
  const Matrix from[2] = {{in[0].data_ptr(), type, in[0].stride(1), 1}, {in[1].data_ptr(), type, in[1].stride(1), 1}},
               to[2] = {{out[0].data_ptr(), type, out[0].stride(1), 1}, {out[1].data_ptr(), type, out[1].stride(1), 1}};
  at::parallel_for(0, B * T, std::max<int64_t>(1, kTurnedAThread / a_token), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t b = token / T, t = token % T, at = (by_row ? token : t) * turned;
      for (size_t i = 0; i < 2; ++i) {
        isa().rotate({from[i].at(b * in[i].stride(0) + t * in[i].stride(2)),
                      to[i].at(b * out[i].stride(0) + t * out[i].stride(2)), in[i].size(1), in[i].size(3), turned,
                      cosines + at, sines + at, interleaved, back});
      }
    }
  });
  return out;
}

class RotaryFunction : public torch::autograd::Function<RotaryFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& cosine,
                               const Tensor& sine, bool interleaved) {
    context->save_for_backward({cosine, sine});
    context->saved_data["interleaved"] = interleaved;
    const auto out = run_rotary({query, key}, cosine, sine, interleaved, false);
    return {out[0], out[1]};
  }
  // The turn is linear: its gradient is the turn back, whatever is being differentiated.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const bool interleaved = context->saved_data["interleaved"].toBool();
    if (at::GradMode::is_enabled()) {
      return {composed_rotary(gradients[0], saved[0], -saved[1], interleaved),
              composed_rotary(gradients[1], saved[0], -saved[1], interleaved), Tensor(), Tensor(), Tensor()};
    }
    const auto out = run_rotary({gradients[0], gradients[1]}, saved[0], saved[1], interleaved, true);
    return {out[0], out[1], Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::pair<Tensor, Tensor> rotary(const Tensor& query, const Tensor& key, const RotaryTables& tables) {
  if (!has_rotary_kernel(query, tables.cosine) || !has_rotary_kernel(key, tables.cosine)) {
    return {composed_rotary(query, tables.cosine, tables.sine, tables.interleaved),
            composed_rotary(key, tables.cosine, tables.sine, tables.interleaved)};
  }
  const Tensor cosine = tables.cosine.contiguous(), sine = tables.sine.contiguous();
  if (at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad())) {
    const auto out = RotaryFunction::apply(query, key, cosine, sine, tables.interleaved);
    return {out[0], out[1]};
  }
  const auto out = run_rotary({query, key}, cosine, sine, tables.interleaved, false);
  return {out[0], out[1]};
}

}  // namespace fovea
