// SPDX-License-Identifier: Apache-2.0
#include "fovea/heads/masked_lm.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "fovea/base/check.h"
#include "fovea/base/size.h"
#include "fovea/layers/linear.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/fresh.h"

namespace fovea {

MaskedLMHeadImpl::MaskedLMHeadImpl(MaskedLMHeadOptions options)
    : options_(std::move(options)), activation_(activation(options_.activation)) {
  const auto& [vocabulary, width, name, eps, tied] = options_;
  FOVEA_CHECK_CONFIG(vocabulary > 0 && width > 0, "masked lm head: vocabulary is ", vocabulary, " and width ", width,
                     ", wanted at least 1");
  check_parameters("masked lm head", double(vocabulary) * double(width));
  dense = register_module("dense", make_linear(width, width));
  norm = register_module("norm", Norm({.width = width, .eps = eps}));
  if (!tied) weight = register_parameter("weight", fresh_weight({vocabulary, width}, 0.02));
  bias = register_parameter("bias", at::zeros({vocabulary}));
}

at::Tensor MaskedLMHeadImpl::forward(const at::Tensor& hidden, const at::Tensor& table) const {
  const at::Tensor x = norm->forward(activation_(linear(dense, hidden)));  // [..., C]
  return affine(x, options_.tied ? table : weight, bias);                  // [..., V]
}

}  // namespace fovea
