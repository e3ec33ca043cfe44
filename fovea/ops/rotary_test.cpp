// Rotary positions on query and key against the equation by LibTorch's operators.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/rotary.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace fovea {
namespace {

using at::Tensor;

RotaryTables tables(int64_t B, int64_t T, int64_t turned, bool interleaved) {
  const Tensor positions =
      B > 0 ? at::randint(0, 50, {B, 1, T, 1}).to(at::kDouble) : at::arange(T, at::kDouble).unsqueeze(1);
  const Tensor angles = positions * at::rand({turned / 2}, at::kDouble);
  const auto both = [&](const Tensor& first, const Tensor& second) {
    return interleaved ? at::stack({first, second}, -1).flatten(-2) : at::cat({first, second}, -1);
  };
  return {both(angles.cos(), angles.cos()), both(-angles.sin(), angles.sin()), interleaved};
}

RotaryTables narrow(RotaryTables t) { return {t.cosine.to(at::kFloat), t.sine.to(at::kFloat), t.interleaved}; }

TEST(Rotary, KernelEqualsTheDefinitionForwardAndBackward) {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const bool interleaved : {false, true}) {
      for (const int64_t B : {0, 2}) {
        for (const int64_t turned : {4, 10, 24}) {
          const RotaryTables wide = tables(B, 5, turned, interleaved);
          const auto draw = [&](int64_t heads) {
            return at::randn({2, 5, heads, 24}).transpose(1, 2).to(type).requires_grad_();
          };
          const Tensor q = draw(4), k = draw(2);
          const auto leaf = [](const Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
          const Tensor q64 = leaf(q), k64 = leaf(k);
          const auto [a, b] = rotary(q, k, narrow(wide));
          const auto [c, d] = rotary(q64, k64, wide);
          const double tolerance = type == at::kFloat ? 1e-5 : 3e-2;
          EXPECT_EQ(a.scalar_type(), type);
          EXPECT_TRUE(at::allclose(a.to(at::kDouble), c, 1e-2, tolerance));
          EXPECT_TRUE(at::allclose(b.to(at::kDouble), d, 1e-2, tolerance));
          const Tensor g = at::randn(q.sizes()), h = at::randn(k.sizes());
          ((a * g).sum() + (b * h).sum()).backward();
          ((c * g).sum() + (d * h).sum()).backward();
          EXPECT_TRUE(at::allclose(q.grad().to(at::kDouble), q64.grad(), 1e-2, tolerance));
          EXPECT_TRUE(at::allclose(k.grad().to(at::kDouble), k64.grad(), 1e-2, tolerance));
        }
      }
    }
  }
}

TEST(Rotary, AnyStridesAndEmptySizes) {
  at::manual_seed(3);
  const RotaryTables t = narrow(tables(0, 3, 6, false));
  const Tensor strided = at::randn({1, 2, 6, 3}).transpose(2, 3), k = at::randn({1, 1, 3, 6}).expand({1, 2, 3, 6});
  const auto [a, b] = rotary(strided, k, t);
  const auto [c, d] = rotary(strided.contiguous(), k.contiguous(), t);
  EXPECT_TRUE(at::equal(a, c));
  EXPECT_TRUE(at::equal(b, d));
  EXPECT_EQ(rotary(at::zeros({0, 2, 3, 6}), at::zeros({0, 1, 3, 6}), t).first.sizes(), at::IntArrayRef({0, 2, 3, 6}));
}

}  // namespace
}  // namespace fovea
