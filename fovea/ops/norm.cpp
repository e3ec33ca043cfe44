// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/norm.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "fovea/base/check.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/kernels/dropout.h"
#include "fovea/ops/seed.h"

namespace fovea {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kNumbersAThread = 1 << 14;
constexpr int64_t kChunks = 32;  // partial sums of a weight's gradient: their number depends on the shape alone

bool has_norm_kernel(const Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.numel() > 0;
}

const float* floats(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
const void* numbers(const Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }
void* room(const Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }
Tensor plain(const Tensor& x) { return x.defined() ? x.to(at::kFloat).contiguous() : x; }
Number number_of(const Tensor& x) { return x.scalar_type() == at::kFloat ? Number::kFloat : Number::kBFloat16; }

// Everything that forward and backward share.
struct NormCall {
  double eps;
  bool centred;
  RowDropout dropout;
};

struct NormResult {
  Tensor sum, normed, mean, inverse;
};

NormResult run_norm(const Tensor& x, const Tensor& added, const Tensor& weight, const Tensor& bias,
                    const NormCall& call) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor in = x.contiguous(), more = added.defined() ? added.contiguous() : added;
  NormResult out{more.defined() ? at::empty_like(in) : Tensor(), at::empty_like(in), at::empty({rows}, at::kFloat),
                 at::empty({rows}, at::kFloat)};
  const Tensor w = plain(weight), b = plain(bias);
  const NormRows args{number_of(x),
                      width,
                      numbers(in),
                      numbers(more),
                      room(out.sum),
                      room(out.normed),
                      floats(w),
                      floats(b),
                      out.mean.data_ptr<float>(),
                      out.inverse.data_ptr<float>(),
                      float(call.eps),
                      call.centred,
                      call.dropout};
  at::parallel_for(0, rows, std::max<int64_t>(1, kNumbersAThread / width),
                   [&](int64_t begin, int64_t end) { isa().norm(args, begin, end); });
  if (!out.sum.defined()) out.sum = in;
  return out;
}

Tensor composed_norm(const Tensor& x, const NormParameters& p) {
  if (p.centred) return at::layer_norm(x, {x.size(-1)}, p.weight, p.bias, p.eps);
  const bool narrow = x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
  const Tensor wide = narrow ? x.to(at::kFloat) : x;
  const Tensor y = wide * (wide.square().mean(-1, true) + p.eps).rsqrt() * p.weight;  // promotes to f32
  return narrow ? y.to(x.scalar_type()) : y;
}

Tensor dropped(const Tensor& x, double p) {
  if (p == 0) return x;
  // LibTorch multiplies by zero, which keeps NaN.
  if (p == 1) return at::zeros_like(x);
  return at::dropout(x, p, true);
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  // {normed}, or with `added` {normed, sum}
  static variable_list forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& residual,
                               const Tensor& weight, const std::optional<Tensor>& shift, double eps, bool centred,
                               int64_t threshold, int64_t seed, double kept) {
    const Tensor added = residual.value_or(Tensor()), bias = shift.value_or(Tensor());
    const NormCall call{eps, centred, {uint64_t(threshold), uint64_t(seed), float(kept)}};
    const NormResult out = run_norm(x, added, weight, bias, call);
    context->save_for_backward({added.defined() ? out.sum : x, weight, bias, out.mean, out.inverse});
    auto& saved = context->saved_data;
    saved["eps"] = eps, saved["centred"] = centred, saved["threshold"] = threshold, saved["seed"] = seed,
    saved["kept"] = kept;
    context->set_materialize_grads(false);
    if (!added.defined()) return {out.normed};
    return {out.normed, out.sum};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const auto saved = context->get_saved_variables();
    const Tensor &sum = saved[0], &weight = saved[1], &bias = saved[2];
    const bool residual = gradients.size() > 1;
    const Tensor through = residual ? gradients[1] : Tensor();
    const NormParameters parameters{weight, bias, data["eps"].toDouble(), data["centred"].toBool()};
    const RowDropout dropout{uint64_t(data["threshold"].toInt()), uint64_t(data["seed"].toInt()),
                             float(data["kept"].toDouble())};
    Tensor x_gradient, added_gradient, weight_gradient, bias_gradient;
    if (at::GradMode::is_enabled() && gradients[0].defined()) {
      FOVEA_CHECK_KIND(ErrorKind::kArgument, dropout.threshold == 0,
                       "residual_norm: no second derivatives with dropout; call eval() first");
      // The same equations as the kernel's, in operators that can be differentiated again.
      const Tensor x = sum.to(at::kFloat), d = gradients[0].to(at::kFloat);
      const Tensor deviation = parameters.centred ? x - x.mean(-1, true) : x;
      const Tensor inverse = (deviation.square().mean(-1, true) + parameters.eps).rsqrt(), n = deviation * inverse,
                   g = d * weight.to(at::kFloat);
      const Tensor g_centred = parameters.centred ? g - g.mean(-1, true) : g;
      x_gradient = (inverse * (g_centred - n * (g * n).mean(-1, true))).to(sum.scalar_type());
      if (through.defined()) x_gradient = x_gradient + through;
      added_gradient = x_gradient;
      weight_gradient = (d * n).reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
      if (bias.defined()) bias_gradient = d.reshape({-1, x.size(-1)}).sum(0).to(bias.scalar_type());
    } else {
      run_backward(parameters, dropout, sum, saved[3], saved[4], gradients[0], through, residual, x_gradient,
                   added_gradient, weight_gradient, bias_gradient);
    }
    return {x_gradient,      residual ? added_gradient : Tensor(),
            weight_gradient, bias_gradient,
            Tensor(),        Tensor(),
            Tensor(),        Tensor(),
            Tensor()};
  }

 private:
  static void run_backward(const NormParameters& p, const RowDropout& dropout, const Tensor& x, const Tensor& mean,
                           const Tensor& inverse, const Tensor& normed_gradient, const Tensor& sum_gradient,
                           bool residual, Tensor& x_gradient, Tensor& added_gradient, Tensor& weight_gradient,
                           Tensor& bias_gradient) {
    const int64_t width = x.size(-1), rows = x.numel() / width;
    const auto type = x.scalar_type();
    const Tensor sum = x.contiguous(), weight = plain(p.weight);
    const Tensor gradient = normed_gradient.defined() ? normed_gradient.to(type).contiguous() : at::zeros_like(sum);
    const Tensor through = sum_gradient.defined() ? sum_gradient.to(type).contiguous() : Tensor();
    x_gradient = at::empty_like(sum);
    if (residual) added_gradient = dropout.threshold ? at::empty_like(sum) : x_gradient;
    // Each chunk of rows sums on its own, and the chunks are added in order: threads change nothing.
    const int64_t a_chunk =
        std::max<int64_t>((rows + kChunks - 1) / kChunks, std::max<int64_t>(1, kNumbersAThread / 4 / width));
    const int64_t chunks = (rows + a_chunk - 1) / a_chunk;
    const Tensor sums = at::zeros({chunks, 2, width}, at::kFloat);
    NormRowsGradient args{number_of(x),
                          width,
                          numbers(sum),
                          numbers(gradient),
                          numbers(through),
                          floats(weight),
                          floats(mean),
                          floats(inverse),
                          p.centred,
                          room(x_gradient),
                          dropout.threshold ? room(added_gradient) : nullptr,
                          nullptr,
                          nullptr,
                          dropout};
    at::parallel_for(0, chunks, std::max<int64_t>(1, kNumbersAThread / (a_chunk * width)),
                     [&](int64_t begin, int64_t end) {
                       NormRowsGradient own = args;
                       for (int64_t i = begin; i < end; ++i) {
                         own.weight_gradient = sums.data_ptr<float>() + i * 2 * width;
                         own.bias_gradient = p.bias.defined() ? own.weight_gradient + width : nullptr;
                         isa().norm_backward(own, i * a_chunk, std::min(rows, (i + 1) * a_chunk));
                       }
                     });
    float* total = sums.data_ptr<float>();
    for (int64_t i = 1; i < chunks; ++i)
      for (int64_t c = 0; c < 2 * width; ++c) total[c] += total[i * 2 * width + c];
    weight_gradient = sums[0][0].to(p.weight.scalar_type());
    if (p.bias.defined()) bias_gradient = sums[0][1].to(p.bias.scalar_type());
  }
};

// How an autograd function takes a tensor that may be undefined.
std::optional<Tensor> optional(const Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

bool wants_gradient(std::initializer_list<const Tensor*> tensors) {
  return at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(),
                                                   [](const Tensor* t) { return t->defined() && t->requires_grad(); });
}

}  // namespace

Tensor norm(const Tensor& x, const NormParameters& p) {
  if (!has_norm_kernel(x)) return composed_norm(x, p);
  if (!wants_gradient({&x, &p.weight, &p.bias}))
    return run_norm(x, {}, p.weight, p.bias, {p.eps, p.centred, {}}).normed;
  return NormFunction::apply(x, optional(Tensor()), p.weight, optional(p.bias), p.eps, p.centred, int64_t(0),
                             int64_t(0), 1.0)[0];
}

ResidualNorm residual_norm(const Tensor& x, const Tensor& added, double dropout, const NormParameters& p) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.sizes() == added.sizes() && x.scalar_type() == added.scalar_type(),
                   "residual_norm: x is ", x.sizes(), " ", x.scalar_type(), ", added ", added.sizes(), " ",
                   added.scalar_type(), "; both must be the same");
  if (!has_norm_kernel(x)) {
    const Tensor sum = x + dropped(added, dropout);
    return {sum, composed_norm(sum, p)};
  }
  RowDropout drop;
  if (dropout > 0)
    drop = {RowsDropout(dropout, 0).threshold(), uint64_t(draw_seed()), float(dropout < 1 ? 1 / (1 - dropout) : 0)};
  if (!wants_gradient({&x, &added, &p.weight, &p.bias})) {
    const NormResult out = run_norm(x, added, p.weight, p.bias, {p.eps, p.centred, drop});
    return {out.sum, out.normed};
  }
  const auto out = NormFunction::apply(x, optional(added), p.weight, optional(p.bias), p.eps, p.centred,
                                       int64_t(drop.threshold), int64_t(drop.seed), double(drop.kept));
  return {out[1], out[0]};
}

}  // namespace fovea
