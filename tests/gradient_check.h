// For tests: gradients by central differences in f64 against autograd's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace fovea {

// `f` reads the leaves (f64, requires_grad); checks d(Σ w ∘ f)/d(leaf) for fixed random w at up to `samples` elements
// of each.
inline void expect_gradients(const std::function<torch::Tensor()>& f, const std::vector<torch::Tensor>& leaves,
                             double tolerance = 1e-6, int64_t samples = 24) {
  const torch::Tensor y = f();
  ASSERT_EQ(y.scalar_type(), torch::kDouble);
  const torch::Tensor w = torch::arange(y.numel(), torch::kDouble).mul(0.7).sin().view(y.sizes());
  const auto gradients = torch::autograd::grad({(y * w).sum()}, leaves, {}, {}, false, /*allow_unused=*/true);
  const torch::NoGradGuard no_grad;
  at::set_num_threads(1);  // the tensors are tiny
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const torch::Tensor flat = leaves[i].detach().view(-1);
    const torch::Tensor ours = gradients[i].defined() ? gradients[i].reshape(-1) : torch::zeros_like(flat);
    const int64_t stride = std::max<int64_t>(1, flat.numel() / samples);
    for (int64_t at = 0; at < flat.numel(); at += stride) {
      const double before = flat[at].item<double>();
      const auto loss = [&](double value) {
        flat[at] = value;
        return (f() * w).sum().item<double>();
      };
      const double numeric = (loss(before + kStep) - loss(before - kStep)) / (2 * kStep);
      flat[at] = before;
      ASSERT_NEAR(ours[at].item<double>(), numeric, tolerance * std::max(1.0, std::abs(numeric)))
          << "leaf " << i << " " << leaves[i].sizes() << ", element " << at;
    }
  }
}

// The parameters of a module, cast to f64 first; with `x` in front where it is given.
inline std::vector<torch::Tensor> f64_leaves(torch::nn::Module& module, std::vector<torch::Tensor> inputs = {}) {
  module.to(torch::kDouble);
  for (const auto& parameter : module.parameters()) inputs.push_back(parameter);
  return inputs;
}

// An input with gradient, the same on every call.
inline torch::Tensor f64_input(torch::IntArrayRef sizes, double phase = 0) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  return torch::arange(numel, torch::kDouble).mul(1.3).add(phase).sin().view(sizes).clone().requires_grad_();
}

// The message of the fovea::Error that `call` throws; "" when it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace fovea
