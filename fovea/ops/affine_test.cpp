// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/affine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Affine, FewRowsEqualTheDefinition) {
  at::manual_seed(3);
  for (int64_t rows : {1, 2, 7, 8, 9}) {
    for (int64_t width : {1, 5, 8, 31, 128, 700}) {
      for (int64_t outputs : {1, 3, 4, 65, 600}) {
        const auto x = at::randn({rows, width}), w = at::randn({outputs, width}), b = at::randn({outputs});
        const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
        const auto want = at::linear(wide(x), wide(w), wide(b));
        const double worst = (affine(x, w, b) - want).abs().max().item<double>();
        // f32 sums of `width` products near 1.
        EXPECT_LT(worst, 2e-6 * std::sqrt(double(width)) + 1e-6) << rows << " x " << width << " x " << outputs;
        EXPECT_LT((affine(x, w) - at::linear(wide(x), wide(w))).abs().max().item<double>(),
                  2e-6 * std::sqrt(double(width)) + 1e-6);
      }
    }
  }
}

TEST(Affine, HalfWidthRowsAreRoundedOnce) {
  at::manual_seed(3);
  for (int64_t rows : {1, 3, 8, 9, 40}) {
    const auto draw = [](at::IntArrayRef shape) { return at::randn(shape).to(at::kBFloat16); };
    const int64_t outputs = rows == 40 ? 9000 : 21;  // more than one block of what is widened at a time
    const auto x = draw({rows, 130}), w = draw({outputs, 130}), b = draw({outputs});
    const auto want = at::linear(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble));
    const auto got = affine(x, w, b);
    EXPECT_EQ(got.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(got.to(at::kDouble), want, 1.0 / 256, 1e-4)) << rows;  // half a unit of 8 bits
  }
}

TEST(Affine, ThreeLayersAtOnceAreThreeLayers) {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (int64_t rows : {1, 4, 30}) {
      const auto draw = [&](at::IntArrayRef shape) { return at::randn(shape).to(type); };
      const auto x = draw({rows, 600});
      const std::array<Affine, 3> layers{
          {{draw({900, 600}), draw({900})}, {draw({7, 600}), {}}, {draw({300, 600}), draw({300})}}};
      const auto out = affine3(x, layers);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(at::equal(out[i], affine(x, layers[i].weight, layers[i].bias))) << rows << ' ' << i;
    }
  }
}

TEST(Affine, KeepsShapesAndPassesTheRestOn) {
  const auto w = at::randn({6, 4});
  EXPECT_EQ(affine(at::randn({2, 3, 4}), w).sizes(), (std::vector<int64_t>{2, 3, 6}));
  EXPECT_EQ(affine(at::randn({4}), w).sizes(), (std::vector<int64_t>{6}));
  EXPECT_EQ(affine(at::randn({0, 4}), w).sizes(), (std::vector<int64_t>{0, 6}));
  EXPECT_EQ(affine(at::randn({1, 4}, at::kDouble), w.to(at::kDouble)).scalar_type(), at::kDouble);
  const auto turned = at::randn({4, 2}).t();
  EXPECT_TRUE(at::allclose(affine(turned, w), affine(turned.contiguous(), w)));
  EXPECT_THROW(affine(at::randn({1, 5}), w), c10::Error);
}

TEST(Affine, GradientsStillFlow) {
  const auto x = at::randn({1, 4}).requires_grad_(true), w = at::randn({6, 4}).requires_grad_(true);
  affine(x, w).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad()[0], w.detach().sum(0)));
}

TEST(Affine, DoesNotDependOnThreads) {
  const auto x = at::randn({2, 512}), w = at::randn({2000, 512});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = affine(x, w);
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(one, affine(x, w)));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace fovea
