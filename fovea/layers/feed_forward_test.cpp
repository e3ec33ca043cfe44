// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/feed_forward.h"

#include "fovea/layers/dropout.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

TEST(Activation, EqualsItsFormula) {
  const auto x = torch::linspace(-4, 4, 33, torch::kDouble);
  const auto expect = [&](const char* name, const torch::Tensor& wanted) {
    EXPECT_TRUE(torch::allclose(activation(name)(x), wanted, 1e-9, 1e-12)) << name;
  };
  expect("relu", x.clamp_min(0));
  expect("gelu", x * 0.5 * (1 + torch::erf(x / std::sqrt(2.0))));
  const auto tanh_form = 0.5 * x * (1 + torch::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
  for (const char* name : {"gelu_tanh", "gelu_new", "gelu_pytorch_tanh"}) expect(name, tanh_form);
  expect("quick_gelu", x / (1 + torch::exp(-1.702 * x)));
  for (const char* name : {"silu", "swish"}) expect(name, x / (1 + torch::exp(-x)));
  expect("relu2", x.clamp_min(0).square());
  expect("identity", x);
}

TEST(Activation, AnUnknownNameGetsTheNearest) {
  EXPECT_NE(error_of([] { activation("gelu_tahn"); }).find("did you mean \"gelu_tanh\""), std::string::npos);
}

TEST(FeedForward, IsItsEquation) {
  FeedForward plain({.width = 3, .hidden = 5, .activation = "gelu"});
  const auto x = torch::randn({2, 4, 3});
  EXPECT_TRUE(torch::allclose(plain->forward(x), plain->down(torch::gelu(plain->up(x)))));
  EXPECT_TRUE(plain->gate.is_empty());

  FeedForward gated({.width = 3, .hidden = 5, .activation = "swiglu", .bias = false});
  EXPECT_TRUE(torch::allclose(gated->forward(x), gated->down(torch::silu(gated->gate(x)) * gated->up(x))));
  EXPECT_EQ(gated->parameters().size(), 3u);
  EXPECT_EQ(FeedForward({.width = 3})->options().hidden, 12);
}

TEST(FeedForward, Gradients) {
  for (const char* name : {"gelu_tanh", "silu", "swiglu", "geglu", "glu", "relu2"}) {
    FeedForward part({.width = 3, .hidden = 4, .activation = name});
    const auto x = f64_input({2, 2, 3});
    const auto leaves = f64_leaves(*part, {x});
    expect_gradients([&] { return part->forward(x); }, leaves);
  }
}

TEST(FeedForward, Errors) {
  EXPECT_NE(error_of([] { FeedForward({.width = 3, .activation = "swigl"}); }).find("did you mean \"swiglu\""),
            std::string::npos);
  EXPECT_NE(error_of([] { FeedForward({.width = 3, .dropout = 1.5}); }).find("dropout is 1.5"), std::string::npos);
  const FeedForward f({.width = 3});
  const auto says = [&](const torch::Tensor& x, const char* part) {
    const auto message = error_of([&] { f->forward(x); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(torch::ones({2, 7}), "linear: x is [2, 7] Float, wanted [..., 3] Float");
  says(torch::ones({2, 3}, torch::kDouble), "linear: x is [2, 3] Double, wanted [..., 3] Float");
  says({}, "wanted [..., 3] Float");
}

TEST(Dropout, WorksInTrainingOnly) {
  const auto x = torch::ones({40, 50});
  EXPECT_TRUE(drop(x, 0.5, false).is_same(x));
  EXPECT_TRUE(drop(x, 0, true).is_same(x));
  torch::manual_seed(1);
  const auto y = drop(x, 0.2, true);
  EXPECT_TRUE(((y == 0) | (y == 1.25)).all().item<bool>());
  EXPECT_NEAR((y == 0).to(torch::kFloat).mean().item<float>(), 0.2, 0.04);
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(drop(x, 0.2, true), y));
}

TEST(Dropout, CertainDropoutGivesZerosAndZeroGradients) {
  const auto x = torch::tensor({1.f, std::nanf(""), INFINITY}).requires_grad_();
  const auto y = drop(x, 1, true);
  EXPECT_TRUE(torch::equal(y, torch::zeros(3)));
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::zeros(3)));
}

}  // namespace
}  // namespace fovea
