// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/gelu.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace fovea {
namespace {

double worst(const at::Tensor& have, const at::Tensor& want) {
  return (have.to(at::kDouble) - want).abs().max().item<double>();
}

TEST(Gelu, IsTheEquationForwardAndBackward) {
  const auto x = at::cat({at::linspace(-12, 12, 1001), at::tensor({0.0f, -1e30f, 1e30f, 1e-30f})}).requires_grad_();
  const auto wide = x.detach().to(at::kDouble).requires_grad_();
  const auto y = gelu_tanh(x), want = at::gelu(wide, "tanh");
  EXPECT_LE(worst(y.slice(0, 0, 1001), want.slice(0, 0, 1001)), 1e-6);
  EXPECT_EQ(y[1002].item<float>(), 0);
  EXPECT_EQ(y[1003].item<float>(), 1e30f);
  const auto weight = at::arange(1005, at::kFloat).sin();
  const auto have = torch::autograd::grad({y}, {x}, {weight})[0];
  const auto slope = torch::autograd::grad({want}, {wide}, {weight.to(at::kDouble)})[0];
  EXPECT_LE(worst(have.slice(0, 0, 1001), slope.slice(0, 0, 1001)), 1e-6);
}

TEST(Gelu, NanStaysAndOddLayoutsAndTypesWork) {
  EXPECT_TRUE(gelu_tanh(at::full({3}, NAN)).isnan().all().item<bool>());
  const auto x = at::randn({5, 7});
  EXPECT_TRUE(at::allclose(gelu_tanh(x.t()), gelu_tanh(x).t(), 1e-6, 1e-6));
  EXPECT_EQ(gelu_tanh(x.to(at::kBFloat16)).scalar_type(), at::kBFloat16);
  EXPECT_EQ(gelu_tanh(at::empty({0, 3})).numel(), 0);
}

TEST(Gelu, HasSecondDerivatives) {
  const auto x = at::randn({6}).requires_grad_();
  const auto first = torch::autograd::grad({gelu_tanh(x).sum()}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({first.sum()}, {x})[0];
  const auto wide = x.detach().to(at::kDouble).requires_grad_();
  const auto first_wide = torch::autograd::grad({at::gelu(wide, "tanh").sum()}, {wide}, {}, std::nullopt, true)[0];
  EXPECT_LE(worst(second, torch::autograd::grad({first_wide.sum()}, {wide})[0]), 1e-5);
}

}  // namespace
}  // namespace fovea
