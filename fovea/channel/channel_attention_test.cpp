// Channel attention by hand; tests/parity/test_channel.py holds it against definitions in PyTorch.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/channel_attention.h"

#include "fovea/base/probe.h"
#include "fovea/channel/cbam.h"
#include "fovea/channel/eca.h"
#include "fovea/channel/registry.h"
#include "fovea/channel/squeeze_excitation.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
}

// Every entry of the registry, with sizes that fit all.
template <class F>
void for_each_kind(F f) {
  for (const auto& name : channel_registry().names()) {
    SCOPED_TRACE(name);
    at::manual_seed(5);
    f(name, make_channel_attention(name, {.channels = 6, .reduction = 2, .kernel = 3}));
  }
}

TEST(ChannelAttention, GradientsInEvaluationAndTraining) {
  for_each_kind([](const std::string&, const ChannelAttention& attend) {
    for (const bool training : {false, true}) {
      attend->train(training);
      const auto leaves = f64_leaves(*attend, {f64_input({2, 6, 3, 4})});
      expect_gradients([&] { return attend->forward(leaves[0]); }, leaves, 1e-5);
    }
  });
}

TEST(ChannelAttention, WeighsButNeverGrows) {
  for_each_kind([](const std::string& name, const ChannelAttention& attend) {
    const torch::NoGradGuard no_grad;
    attend->eval();
    std::vector<std::string> seen;
    const auto probe = Probe::on("*weights", [&](std::string_view path, const Tensor& weights) {
      seen.emplace_back(path);
      EXPECT_TRUE(weights.gt(0).all().item<bool>() && weights.lt(1).all().item<bool>());
    });
    const auto x = at::randn({2, 6, 5, 4});
    const auto y = attend->forward(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    const auto factor = y / x;
    EXPECT_TRUE(factor.gt(0).all().item<bool>() && factor.lt(1).all().item<bool>());
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen[0].find(name + "."), 0u) << seen[0];
  });
}

TEST(ChannelAttention, AnImageDoesNotDependOnItsMates) {
  for_each_kind([](const std::string&, const ChannelAttention& attend) {
    const torch::NoGradGuard no_grad;
    attend->eval();
    const auto x = at::randn({3, 6, 1, 7});
    const auto y = attend->forward(x);
    for (int64_t b = 0; b < 3; ++b)
      EXPECT_TRUE(at::allclose(attend->forward(x.slice(0, b, b + 1))[0], y[b], 1e-5, 1e-6));
    EXPECT_EQ(attend->forward(x.slice(0, 0, 0)).sizes(), (std::vector<int64_t>{0, 6, 1, 7}));
    const auto strided = at::randn({3, 7, 1, 6}).transpose(1, 3);
    EXPECT_TRUE(at::allclose(attend->forward(strided), attend->forward(strided.contiguous()), 1e-5, 1e-6));
  });
}

TEST(ChannelAttention, WorksInBf16) {
  for_each_kind([](const std::string&, const ChannelAttention& attend) {
    const torch::NoGradGuard no_grad;
    attend->eval();
    const auto x = at::randn({2, 6, 4, 4});
    const auto wanted = attend->forward(x);
    attend->to(at::kBFloat16);
    const auto y = attend->forward(x.to(at::kBFloat16));
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(y.to(at::kFloat), wanted, 0.05, 0.02));
  });
}

TEST(ChannelAttention, WrongInputsAndOptionsAreNamed) {
  for_each_kind([](const std::string& name, const ChannelAttention& attend) {
    expect_says(error_of([&] {
                  attend->forward(at::zeros({2, 5, 3, 3}));
                }),
                name + ": x is [2, 5, 3, 3], wanted [B, C");
    expect_says(error_of([&] { attend->forward(at::zeros({6, 3, 3})); }), "wanted [B, C, Y, X] with C = 6");
    expect_says(error_of([&] { attend->forward(at::zeros({2, 6, 0, 3})); }), "at least one place");
    expect_says(error_of([&] { attend->forward(at::zeros({2, 6, 3, 3}, at::kDouble)); }), "x is Double, wanted Float");
    const auto make = [&](ChannelOptions options) { return error_of([&] { make_channel_attention(name, options); }); };
    expect_says(make({}), "channels is 0");
    expect_says(make({.channels = 64, .kernel = 4}), "kernel is 4, wanted an odd number");
    expect_says(make({.channels = 64, .kernel = -3}), "kernel is -3");
    if (name == "eca") return;  // has no bottleneck
    expect_says(make({.channels = 8}), "reduction is 16, wanted 1 to the 8 channels");
    expect_says(make({.channels = 8, .reduction = 0}), "reduction is 0");
    expect_says(make({.channels = 8, .reduction = 2, .least_hidden = 0}), "least_hidden is 0");
    expect_says(make({.channels = 64, .activation = "relux"}), "relu");
    expect_says(make({.channels = int64_t(1) << 40}), "GB");
  });
  expect_says(error_of([] { make_channel_attention("cbam", {.channels = 64, .order = "spacial"}); }),
              "did you mean \"spatial\"");
  expect_says(error_of([] { make_channel_attention("coordinate", {.channels = 64, .norm = "bach"}); }), "\"batch\"");
  for (const double momentum : {-3.0, 1.5, double(NAN)})
    expect_says(error_of([&] { make_channel_attention("coordinate", {.channels = 64, .momentum = momentum}); }),
                "coordinate: momentum is ");
  for (const double eps : {-1.0, double(INFINITY), double(NAN)})
    expect_says(error_of([&] { make_channel_attention("coordinate", {.channels = 64, .eps = eps}); }),
                "coordinate: eps is ");
  expect_says(error_of([] { make_channel_attention("squeeze", {.channels = 64}); }),
              "unknown channel attention \"squeeze\"");
}

// Wang et al. 2020, equation 12 with γ = 2, b = 1.
TEST(Eca, KernelsGrowWithTheLogarithmOfTheChannels) {
  for (const auto& [channels, kernel] :
       {std::pair<int64_t, int64_t>{1, 1}, {8, 3}, {64, 3}, {128, 5}, {256, 5}, {512, 5}, {2048, 7}})
    EXPECT_EQ(EcaImpl::kernel_for(channels), kernel) << channels;
}

TEST(Eca, AWeightReadsItsNeighboursOnly) {
  const torch::NoGradGuard no_grad;
  const EcaImpl attend({.channels = 9, .kernel = 3});
  auto x = at::ones({1, 9, 2, 2});
  const auto before = attend.forward(x);
  x.select(1, 4) = 2;
  const auto moved = (attend.forward(x) - before).abs().amax({0, 2, 3}).gt(1e-7);
  EXPECT_TRUE(at::equal(moved, at::tensor({0, 0, 0, 1, 1, 1, 0, 0, 0}).to(at::kBool)));
}

TEST(SqueezeExcitation, ByHand) {
  const torch::NoGradGuard no_grad;
  SqueezeExcitationImpl attend({.channels = 2, .reduction = 2});
  attend.down->weight.copy_(at::tensor({1.0f, -1.0f}).view({1, 2}));
  attend.down->bias.fill_(0.5);
  attend.up->weight.copy_(at::tensor({1.0f, 2.0f}).view({2, 1}));
  attend.up->bias.copy_(at::tensor({0.0f, -1.0f}));
  const auto x = at::tensor({1.0f, 3.0f, 0.0f, 1.0f}).view({1, 2, 1, 2});  // means 2 and 0.5; hidden 2; scores 2 and 3
  const auto wanted = x * at::tensor({2.0f, 3.0f}).sigmoid().view({1, 2, 1, 1});
  EXPECT_TRUE(at::allclose(attend.forward(x), wanted));
}

TEST(Cbam, TheOrderMatters) {
  const torch::NoGradGuard no_grad;
  const auto make = [](const char* order) {
    at::manual_seed(1);
    return CbamImpl({.channels = 4, .reduction = 2, .kernel = 3, .order = order});
  };
  const CbamImpl channel_first = make("channel"), spatial_first = make("spatial");
  const auto x = at::randn({1, 4, 5, 5});
  EXPECT_FALSE(at::allclose(channel_first.forward(x), spatial_first.forward(x)));
}

}  // namespace
}  // namespace fovea
