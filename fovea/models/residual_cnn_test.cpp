// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/residual_cnn.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fovea/channel/registry.h"
#include "fovea/io/json.h"
#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

ResidualCnnConfig small_cnn(const std::string& attention) {
  return {.image_size = {8, 4},
          .channels = 2,
          .width = 4,
          .stages = 2,
          .channel_attention = attention,
          .attention = {.reduction = 2},
          .labels = {"a", "b", "c"}};
}

TEST(ResidualCnnModel, ItsConfigurationMakesItAgain) {
  std::vector<std::string> names = channel_registry().names();
  names.push_back("none");
  for (const auto& name : names) {
    const auto json = ResidualCnn(small_cnn(name))->config();
    const Model again = make_model(json);
    EXPECT_EQ(again->config(), json);
    EXPECT_EQ(again->max_positions(), 8);
    EXPECT_EQ(again->forward({.images = at::randn({3, 2, 8, 4})}).sizes(), (std::vector<int64_t>{3, 3}));
  }
}

TEST(ResidualCnnModel, AnotherHeadKeepsWeightsAndRunningMeans) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(2);
  ResidualCnn model(small_cnn("coordinate"));
  const auto images = at::randn({5, 2, 8, 4}) * 3 + 1;
  model->forward({.images = images});  // moves the running means
  model->eval();
  const auto bare = model->with_head("none", {});
  EXPECT_TRUE(at::equal(bare->forward({.images = images}), model->encode({.images = images})));
  const auto more = model->with_head("classifier", {"x", "y", "z", "w"});
  EXPECT_EQ(more->forward({.images = images}).size(1), 4);
  EXPECT_TRUE(at::equal(more->encode({.images = images}), model->encode({.images = images})));
}

// The last batch of an epoch may be one picture, whose last stage is one place: one value has no variance.
TEST(ResidualCnnModel, ASinglePictureLeavesTheRunningVarianceAlone) {
  for (const char* attention : {"none", "coordinate"}) {
    at::manual_seed(2);
    ResidualCnnConfig config = small_cnn(attention);
    config.image_size = {2, 2};
    ResidualCnn model(config);
    model->train();
    model->forward({.images = at::randn({5, 2, 2, 2})});  // its running numbers are no longer the first ones
    const auto before = model->named_buffers(), parameters = model->named_parameters();
    std::map<std::string, Tensor> kept;
    for (const auto& item : before) kept[item.key()] = item.value().clone();
    model->loss({.images = at::randn({1, 2, 2, 2}), .labels = at::tensor({1}, at::kLong)}).sum.backward();
    for (const auto& item : parameters) EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    for (const auto& item : model->named_buffers()) {
      EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
      const bool alone = item.key().starts_with("blocks.1.") && item.key().find("attention") == std::string::npos;
      const bool variance = item.key().ends_with("norm_variance");
      EXPECT_EQ(at::equal(item.value(), kept[item.key()]), alone && variance) << item.key();
    }
    model->eval();
    EXPECT_TRUE(model->forward({.images = at::randn({3, 2, 2, 2})}).isfinite().all().item<bool>());
  }
}

// The maps say how many channels an attention has; a setting for them would be overwritten.
TEST(ResidualCnnModel, AnAttentionsChannelsAreNoSetting) {
  ResidualCnnConfig config;
  const auto message =
      error_of([&] { fill_from_json(config, {{"attention", {{"channels", 5}}}}, "recipe", UnknownKeys::kError); });
  EXPECT_NE(message.find("attention.channels"), std::string::npos) << message;
}

TEST(ResidualCnnModel, BadSizesAreNamed) {
  const auto says = [](auto change, const char* part) {
    ResidualCnnConfig config = small_cnn("eca");
    change(config);
    const auto message = error_of([&] { ResidualCnn{config}; });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says([](auto& c) { c.image_size = {8, 5}; }, "images of 8 x 5 cannot be halved 1 times; wanted multiples of 2");
  says([](auto& c) { c.image_size = {}; }, "image_size has 0 numbers");
  says([](auto& c) { c.width = 0; }, "width is 0, wanted at least 1");
  says([](auto& c) { c.stages = 40; }, "stages is 40, wanted at most 16");
  says([](auto& c) { c.channel_attention = "ecaa"; }, "did you mean \"eca\"");
  says([](auto& c) { c.channel_attention = "cbam", c.attention.reduction = 5; }, "reduction is 5, wanted 1 to the 4");
  ResidualCnn model(small_cnn("none"));
  EXPECT_NE(error_of([&] {
              model->forward({.images = at::randn({1, 2, 8, 8})});
            }).find("wanted floating-point [B, 2, 8, 4]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { model->forward({}); }).find("no images"), std::string::npos);
}

}  // namespace
}  // namespace fovea
