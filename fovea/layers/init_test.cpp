// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/init.h"

#include "fovea/layers/embedding.h"
#include "fovea/layers/feed_forward.h"
#include "fovea/layers/norm.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

struct PartsImpl : torch::nn::Module {
  PartsImpl() {
    register_module("embedding", embedding);
    register_module("norm", norm);
    register_module("feed_forward", feed_forward);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.fill_(7);
  }
  Embedding embedding{EmbeddingOptions{.vocabulary = 300, .width = 64}};
  Norm norm{NormOptions{.width = 64}};
  FeedForward feed_forward{FeedForwardOptions{.width = 64, .hidden = 128}};
};

double deviation(const torch::Tensor& t) { return t.std().item<double>(); }

void expect_constants(PartsImpl& parts) {
  EXPECT_TRUE((parts.norm->weight == 1).all().item<bool>());
  for (const auto& zero : {parts.norm->bias, parts.feed_forward->up->bias, parts.feed_forward->down->bias})
    EXPECT_TRUE((zero == 0).all().item<bool>());
}

TEST(Init, ADeviationIsANumberFromZeroOn) {
  PartsImpl parts;
  for (const double bad : {-0.1, double(NAN), double(INFINITY)})
    EXPECT_NE(error_of([&] { init::normal(parts, bad); }).find("a deviation of "), std::string::npos) << bad;
}

TEST(Init, NormalAndResidual) {
  PartsImpl parts;
  torch::manual_seed(1);
  init::normal(parts, 0.02);
  expect_constants(parts);
  EXPECT_NEAR(deviation(parts.embedding->weight), 0.02, 0.001);
  EXPECT_NEAR(deviation(parts.feed_forward->up->weight), 0.02, 0.001);
  const auto up = parts.feed_forward->up->weight.clone();
  init::residual(parts, 0.02, 8);
  EXPECT_NEAR(deviation(parts.feed_forward->down->weight), 0.005, 0.0003);
  EXPECT_TRUE(torch::equal(parts.feed_forward->up->weight, up));

  torch::manual_seed(1);
  init::normal(parts, 0.02);
  EXPECT_TRUE(torch::equal(parts.feed_forward->up->weight, up));
}

TEST(Init, Xavier) {
  PartsImpl parts;
  init::xavier(parts);
  expect_constants(parts);
  const double bound = std::sqrt(6.0 / (64 + 128));
  EXPECT_LE(parts.feed_forward->up->weight.abs().max().item<double>(), bound);
  EXPECT_NEAR(deviation(parts.feed_forward->up->weight), bound / std::sqrt(3.0), 0.003);
  EXPECT_NEAR(deviation(parts.embedding->weight), 0.125, 0.003);
}

}  // namespace
}  // namespace fovea
