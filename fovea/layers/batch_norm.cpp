// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <cmath>

#include "fovea/base/check.h"

namespace fovea {

BatchNorm::BatchNorm(const char* what, const BatchNormOptions& options, torch::nn::Module& owner) : options_(options) {
  const auto& [width, eps, momentum] = options_;
  FOVEA_CHECK_CONFIG(eps >= 0 && std::isfinite(eps), what, ": eps is ", eps, ", wanted at least 0");
  FOVEA_CHECK_CONFIG(momentum >= 0 && momentum <= 1, what, ": momentum is ", momentum, ", wanted 0 … 1");
  weight = owner.register_parameter("norm_weight", at::ones({width}));
  bias = owner.register_parameter("norm_bias", at::zeros({width}));
  mean = owner.register_buffer("norm_mean", at::zeros({width}));
  variance = owner.register_buffer("norm_variance", at::ones({width}));
}

at::Tensor BatchNorm::forward(const at::Tensor& x, bool training) const {
  // One value has no unbiased variance: LibTorch would divide by 0 and leave NaN for every later evaluation. An error,
  // as PyTorch has it, would stop a training whose last batch is a single picture; that batch says nothing of the
  // variance, which stays.
  const bool alone = training && x.numel() == x.size(1);
  const at::Tensor moved = alone ? variance.clone() : variance;
  return at::batch_norm(x, weight, bias, mean, moved, training, options_.momentum, options_.eps, false);
}

void BatchNorm::reset() {
  const torch::NoGradGuard no_gradient;
  weight.fill_(1), bias.zero_();
  mean.zero_(), variance.fill_(1);
}

}  // namespace fovea
