// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/norm.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {
namespace {

bool is_narrow(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

}  // namespace

NormImpl::NormImpl(NormOptions options) : options_(std::move(options)), rms_(options_.kind == "rms") {
  FOVEA_CHECK_CONFIG(options_.kind == "layer" || rms_, "unknown norm \"", options_.kind, "\"",
                     suggestion(options_.kind, {"layer", "rms"}));
  FOVEA_CHECK_CONFIG(options_.width > 0, "norm: width is ", options_.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.eps >= 0, "norm: eps is ", options_.eps, ", wanted at least 0");
  weight = register_parameter("weight", at::ones({options_.width}));
  if (options_.bias && !rms_) bias = register_parameter("bias", at::zeros({options_.width}));
}

NormParameters NormImpl::checked(const at::Tensor& x) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.dim() > 0 && x.size(-1) == options_.width, "norm: x is ", x.sizes(),
                   ", wanted [..., ", options_.width, "]");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.scalar_type() == weight.scalar_type() || is_narrow(x), "norm: x is ",
                   x.scalar_type(), ", wanted ", weight.scalar_type());
  return {weight, bias, options_.eps, !rms_};
}

at::Tensor NormImpl::forward(const at::Tensor& x) const { return norm(x, checked(x)); }

ResidualNorm NormImpl::forward(const at::Tensor& x, const at::Tensor& added, double dropout) const {
  return residual_norm(x, added, dropout, checked(x));
}

void NormImpl::reset() {
  const torch::NoGradGuard no_grad;
  weight.fill_(1);
  if (bias.defined()) bias.zero_();
}

}  // namespace fovea
