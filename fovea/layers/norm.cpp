// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {
namespace {

bool is_narrow(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const bool narrow = is_narrow(x);
  const at::Tensor wide = narrow ? x.to(at::kFloat) : x;
  const at::Tensor y = wide * (wide.square().mean(-1, true) + eps).rsqrt() * weight;  // promotes to f32
  return narrow ? y.to(x.scalar_type()) : y;
}

}  // namespace

NormImpl::NormImpl(NormOptions options) : options_(std::move(options)), rms_(options_.kind == "rms") {
  FOVEA_CHECK_CONFIG(options_.kind == "layer" || rms_, "unknown norm \"", options_.kind, "\"",
                     suggestion(options_.kind, {"layer", "rms"}));
  FOVEA_CHECK_CONFIG(options_.width > 0, "norm: width is ", options_.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.eps >= 0, "norm: eps is ", options_.eps, ", wanted at least 0");
  weight = register_parameter("weight", at::ones({options_.width}));
  if (options_.bias && !rms_) bias = register_parameter("bias", at::zeros({options_.width}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.dim() > 0 && x.size(-1) == options_.width, "norm: x is ", x.sizes(),
                   ", wanted [..., ", options_.width, "]");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.scalar_type() == weight.scalar_type() || is_narrow(x), "norm: x is ",
                   x.scalar_type(), ", wanted ", weight.scalar_type());
  return rms_ ? rms_norm(x, weight, options_.eps) : at::layer_norm(x, {options_.width}, weight, bias, options_.eps);
}

void NormImpl::reset() {
  const torch::NoGradGuard no_grad;
  weight.fill_(1);
  if (bias.defined()) bias.zero_();
}

}  // namespace fovea
