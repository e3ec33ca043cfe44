// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/init.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <string_view>

#include "fovea/base/check.h"
#include "fovea/layers/norm.h"
#include "fovea/ops/fresh.h"

namespace fovea::init {
namespace {

template <class F>
void each_own_matrix(torch::nn::Module& part, const F& matrix) {
  if (auto* norm = part.as<NormImpl>()) return norm->reset();
  const bool in_linear = part.as<torch::nn::LinearImpl>() != nullptr;
  for (auto& parameter : part.parameters(/*recurse=*/false)) {
    if (parameter.dim() >= 2) {
      matrix(parameter, in_linear);
    } else {
      parameter.zero_();
    }
  }
}

// Calls matrix(parameter, in_linear) for each parameter with two axes or more; the vectors get their constants. Works
// inside a constructor, where a module cannot list itself.
template <class F>
void each_matrix(torch::nn::Module& module, const F& matrix) {
  if (Undrawn::here()) return;
  const torch::NoGradGuard no_grad;
  each_own_matrix(module, matrix);
  for (const auto& part : module.modules(/*include_self=*/false)) each_own_matrix(*part, matrix);
}

}  // namespace

void normal(torch::nn::Module& module, double std) {
  FOVEA_CHECK_CONFIG(std >= 0 && std::isfinite(std), "init: a deviation of ", std, ", wanted a number from 0 on");
  each_matrix(module, [std](at::Tensor& weight, bool) { torch::nn::init::normal_(weight, 0, std); });
}

void xavier(torch::nn::Module& module) {
  each_matrix(module, [](at::Tensor& weight, bool in_linear) {
    if (in_linear) {
      torch::nn::init::xavier_uniform_(weight);
    } else {
      torch::nn::init::normal_(weight, 0, 1 / std::sqrt(double(weight.size(-1))));
    }
  });
}

void residual(torch::nn::Module& module, double std, int64_t layers) {
  if (Undrawn::here()) return;
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string_view name = item.key();
    if (name.ends_with("attention.output.weight") || name.ends_with("feed_forward.down.weight")) {
      torch::nn::init::normal_(item.value(), 0, std / std::sqrt(2.0 * double(layers)));
    }
  }
}

}  // namespace fovea::init
