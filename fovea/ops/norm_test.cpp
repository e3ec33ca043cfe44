// Norms and the residual sum before them, against LibTorch's operators in f64.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "fovea/base/error.h"

namespace fovea {
namespace {

using at::Tensor;

Tensor normal(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return at::randn(shape).to(type).requires_grad_();
}
Tensor wide_leaf(const Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); }
double error_to(const Tensor& got, const Tensor& wanted) {
  return ((got.to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
}

TEST(ResidualNorm, ValueAndEveryGradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 2e-6 : 2e-2;  // bf16: sum and result are rounded to 8 bits
    for (const bool centred : {true, false}) {
      for (int64_t width : {3, 64, 200}) {
        at::manual_seed(1);
        const Tensor x = normal({5, 7, width}, type), added = normal({5, 7, width}, type),
                     weight = normal({width}, type), bias = normal({width}, type);
        const NormParameters ours{weight, centred ? bias : Tensor(), 1e-5, centred};
        const Tensor w = wide_leaf(weight), b = wide_leaf(bias), x64 = wide_leaf(x), added64 = wide_leaf(added);
        const ResidualNorm got = residual_norm(x, added, 0, ours),
                           wanted = residual_norm(x64, added64, 0, {w, centred ? b : Tensor(), 1e-5, centred});
        EXPECT_EQ(got.normed.scalar_type(), type);
        EXPECT_LE(error_to(got.sum, wanted.sum), tolerance);
        EXPECT_LE(error_to(got.normed, wanted.normed), tolerance);
        const Tensor g = at::randn(x.sizes()).to(type), h = at::randn(x.sizes()).to(type);
        ((got.sum * g).sum() + (got.normed * h).sum()).backward();
        ((wanted.sum * g).sum() + (wanted.normed * h).sum()).backward();
        EXPECT_LE(error_to(x.grad(), x64.grad()), tolerance) << width;
        EXPECT_LE(error_to(added.grad(), added64.grad()), tolerance);
        EXPECT_LE(error_to(weight.grad(), w.grad()), tolerance);
        if (centred) {
          EXPECT_LE(error_to(bias.grad(), b.grad()), tolerance);
        }
      }
    }
  }
}

TEST(ResidualNorm, OneOutputUsedIsEnough) {
  at::manual_seed(1);
  const Tensor x = normal({4, 16}), added = normal({4, 16}), weight = normal({16});
  residual_norm(x, added, 0, {weight}).sum.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones({4, 16})));
  EXPECT_EQ(weight.grad().defined() ? weight.grad().abs().max().item<float>() : 0, 0);
  residual_norm(x, added, 0, {weight}).normed.square().sum().backward();
  EXPECT_GT(weight.grad().abs().max().item<float>(), 0);
}

TEST(ResidualNorm, DropoutKeepsScalesAndIsTheSameBackward) {
  at::manual_seed(4);
  const Tensor x = normal({64, 96}), added = at::ones({64, 96}).requires_grad_(), weight = at::ones({96});
  const ResidualNorm y = residual_norm(x, added, 0.25, {weight});
  const Tensor kept = (y.sum - x).detach();  // 0 or 4/3
  EXPECT_LE(((kept.abs() < 1e-5) | ((kept - 4.0 / 3).abs() < 1e-5)).logical_not().sum().item<int64_t>(), 0);
  EXPECT_NEAR(kept.mean().item<double>(), 1, 0.04);  // five deviations
  y.sum.sum().backward();
  EXPECT_TRUE(at::allclose(added.grad(), (kept > 0.5).to(at::kFloat) * (4.0 / 3)));
  at::manual_seed(4);
  EXPECT_TRUE(at::equal(residual_norm(normal({64, 96}), added, 0.25, {weight}).sum, y.sum));  // the seed reproduces
  EXPECT_FALSE(at::equal(residual_norm(x, added, 0.25, {weight}).sum, y.sum));
  const Tensor nan = at::full({64, 96}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(at::equal(residual_norm(x, nan, 1, {weight}).sum, x));
  EXPECT_THROW(residual_norm(x, at::ones({64, 95}), 0, {weight}), Error);
}

TEST(ResidualNorm, ThreadsChangeNothing) {
  at::manual_seed(6);
  const Tensor x = at::randn({700, 80}), added = at::randn({700, 80});
  std::vector<std::vector<Tensor>> runs;
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    at::manual_seed(9);
    const Tensor a = x.clone().requires_grad_(), b = added.clone().requires_grad_(),
                 weight = at::ones({80}).requires_grad_();
    const ResidualNorm y = residual_norm(a, b, 0.1, {weight});
    (y.sum + y.normed.square()).sum().backward();
    runs.push_back({y.sum, y.normed, a.grad(), b.grad(), weight.grad()});
  }
  at::set_num_threads(threads);
  for (size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_TRUE(at::equal(runs[0][i], runs[1][i])) << i;
    EXPECT_TRUE(at::equal(runs[0][i], runs[2][i])) << i;
  }
}

TEST(ResidualNorm, SecondDerivativesWithoutDropout) {
  at::manual_seed(2);
  const Tensor x = normal({3, 8}), added = normal({3, 8}), weight = normal({8}), bias = normal({8});
  const auto second = [](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& shift) {
    const auto y = residual_norm(a, b, 0, {w, shift}).normed.pow(3).sum();
    const auto first = torch::autograd::grad({y}, {a}, {}, std::nullopt, true)[0];
    return torch::autograd::grad({first.pow(2).sum()}, {a, b, w});
  };
  const auto got = second(x, added, weight, bias),
             wanted = second(wide_leaf(x), wide_leaf(added), wide_leaf(weight), wide_leaf(bias));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(error_to(got[i], wanted[i]), 1e-4) << i;
  const auto y = residual_norm(x, added, 0.5, {weight, bias}).normed.sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, std::nullopt, true), Error);
}

TEST(ResidualNorm, EmptyAndOtherTypes) {
  const Tensor weight = at::ones({4});
  EXPECT_EQ(residual_norm(at::zeros({0, 4}), at::zeros({0, 4}), 0, {weight}).normed.sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(norm(at::randn({2, 4}, at::kDouble), {weight.to(at::kDouble)}).scalar_type(), at::kDouble);
  const Tensor slice = at::randn({3, 8}).slice(1, 0, 8, 2);  // not contiguous
  EXPECT_TRUE(at::allclose(norm(slice, {weight}), at::layer_norm(slice, {4}, weight)));
}

}  // namespace
}  // namespace fovea
