// ViT by its promises; its numbers are held against transformers in tests/parity/test_vit.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/vit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/base/probe.h"
#include "fovea/io/json.h"
#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

VitConfig small_vit() {
  return {.image_size = {8, 6},
          .patch_size = {4, 2},
          .channels = 2,
          .width = 12,
          .layers = 2,
          .heads = 3,
          .head = "classifier",
          .labels = {"cat", "dog", "hen"}};
}

TEST(VitModel, GradientsOfTheLoss) {
  at::manual_seed(2);
  VitConfig config = small_vit();
  config.initializer_range = 0.3;
  Vit model(config);
  const auto leaves = f64_leaves(*model, {f64_input({3, 2, 8, 6})});
  const auto labels = at::tensor({2, 0, -100}, at::kLong);
  expect_gradients([&] { return model->loss({.images = leaves[0], .labels = labels}).sum; }, leaves, 1e-5, 3);
  EXPECT_EQ(model->loss({.images = leaves[0], .labels = labels}).count, 2);
}

TEST(VitModel, AnImageDoesNotDependOnItsMates) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(2);
  Vit model(small_vit());
  model->eval();
  const auto images = at::randn({4, 2, 8, 6});
  const auto all = model->forward({.images = images});
  ASSERT_EQ(all.sizes(), (std::vector<int64_t>{4, 3}));
  for (int64_t b = 0; b < 4; ++b)
    EXPECT_TRUE(at::allclose(model->forward({.images = images.slice(0, b, b + 1)})[0], all[b], 1e-5, 1e-6));
  EXPECT_EQ(model->forward({.images = images.slice(0, 0, 0)}).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(model->encode({.images = images}).sizes(), (std::vector<int64_t>{4, 7, 12}));
  EXPECT_EQ(model->max_positions(), 7);
}

TEST(VitModel, ItsConfigurationMakesItAgain) {
  for (const char* head : {"none", "classifier"}) {
    VitConfig config = small_vit();
    config.head = head;
    config.qkv_bias = false;
    config.pooler_width = 5;
    config.any_image_size = true;
    Vit model(config);
    const auto back = make_model(model->config());
    EXPECT_EQ(back->config(), model->config());
    EXPECT_EQ(back->parameter_count(), model->parameter_count());
    EXPECT_EQ(std::dynamic_pointer_cast<EncoderModelImpl>(back)->head(), head);
  }
  const auto recipe = models_registry().at("vit").recipe();
  const std::vector<std::string> classes{"bag", "coat", "shoe"};
  EXPECT_EQ(std::dynamic_pointer_cast<EncoderModelImpl>(make_model(recipe->image_config(classes)))->labels(), classes);
  EXPECT_NE(error_of([&] { recipe->config(10); }).find("reads no text"), std::string::npos);
  fill_from_json(*recipe, {{"patch_size", {7, 5}}}, "recipe");
  EXPECT_NE(error_of([&] { recipe->image_config(classes); })
                .find("vit: images of 28 x 28 do not divide into patches of 7 x 5: 0 rows and 3 columns"),
            std::string::npos);
  EXPECT_NE(error_of([&] { models_registry().at("gpt2").recipe()->image_config(classes); }).find("vit does"),
            std::string::npos);
}

TEST(VitModel, ANewHeadKeepsTheEncoder) {
  at::manual_seed(4);
  Vit model(small_vit());
  const auto other = model->with_head("classifier", {"one", "two", "three", "four", "five"});
  EXPECT_EQ(other->labels().size(), 5u);
  const Batch batch{.images = at::randn({2, 2, 8, 6})};
  EXPECT_TRUE(at::equal(other->encode(batch), model->encode(batch)));
  EXPECT_EQ(other->forward(batch).sizes(), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(model->with_head("none", {})->head(), "none");
  EXPECT_NE(error_of([&] { model->with_head("masked_lm", {}); }).find("unknown head"), std::string::npos);
}

// Not learned: rows and columns say where a patch stands. Numbers: tests/parity/test_positions.py.
TEST(VitModel, PositionsByRowAndColumn) {
  const torch::NoGradGuard no_grad;
  for (const char* position : {"sinusoidal_2d", "rope_2d", "none"}) {
    at::manual_seed(2);
    VitConfig config = small_vit();
    config.position = position;
    config.patch_size = {2};
    config.initializer_range = 0.3;
    config.any_image_size = true;
    Vit model(config);
    model->eval();
    EXPECT_EQ(make_model(model->config())->config(), model->config());
    EXPECT_EQ(model->config()["model_type"], "fovea_vit");
    EXPECT_FALSE(model->named_parameters().contains("embedding.positions")) << position;
    EXPECT_EQ(model->max_positions(), 13);
    const auto image = at::randn({1, 2, 8, 6});
    const auto tokens = model->encode({.images = image});
    ASSERT_EQ(tokens.sizes(), (std::vector<int64_t>{1, 13, 12}));
    EXPECT_EQ(model->encode({.images = at::randn({1, 2, 4, 10})}).sizes(), (std::vector<int64_t>{1, 11, 12}));
    // The same patches in another order of rows, or of columns: only without positions the class token does not care.
    for (const int64_t axis : {2, 3}) {
      const auto mixed = image.unflatten(axis, {-1, 2}).flip(axis).flatten(axis, axis + 1);
      const auto other = model->encode({.images = mixed});
      EXPECT_EQ(at::allclose(other[0][0], tokens[0][0], 1e-4, 1e-4), std::string(position) == "none") << position;
    }
  }
}

TEST(VitModel, ThePoolerReadsTheClassToken) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(2);
  VitConfig config = small_vit();
  config.head = "none";
  config.pooler_width = 4;
  Vit model(config);
  const Batch batch{.images = at::randn({2, 2, 8, 6})};
  const auto parameters = model->named_parameters();
  const auto wanted = at::tanh(at::linear(model->encode(batch).select(1, 0), parameters["pooler.dense.weight"],
                                          parameters["pooler.dense.bias"]));
  EXPECT_TRUE(at::allclose(model->pooled(batch), wanted, 1e-5, 1e-6));
  EXPECT_TRUE(model->has_pooler());
  model->leave_out({});
  EXPECT_FALSE(model->has_pooler());
  EXPECT_NE(error_of([&] { model->pooled(batch); }).find("no pooler"), std::string::npos);
}

TEST(VitModel, ItsWeightsAreSeenByProbes) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(2);
  Vit model(small_vit());
  std::vector<std::string> names;
  const auto probe = Probe::on("*attention.weights", [&](std::string_view name, const Tensor& weights) {
    names.emplace_back(name);
    EXPECT_EQ(weights.sizes(), (std::vector<int64_t>{1, 3, 7, 7}));
  });
  model->forward({.images = at::randn({1, 2, 8, 6})});
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.attention.weights", "layers.1.attention.weights"}));
}

TEST(VitModel, WrongCallsAndConfigurationsAreNamed) {
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  Vit model(small_vit());
  const auto images = at::zeros({1, 2, 8, 6});
  says(error_of([&] { model->forward({.ids = at::zeros({1, 2}, at::kLong)}); }), "no images");
  says(error_of([&] { model->forward({.images = at::zeros({1, 2, 6, 8})}); }), "images of 6 x 8, wanted 8 x 6");
  says(error_of([&] { model->loss({.images = images}); }), "no labels");
  says(error_of([&] { model->loss({.images = images, .labels = at::tensor({3}, at::kLong)}); }), "3");
  const auto make = [](auto change) {
    VitConfig config = small_vit();
    change(config);
    return error_of([&] { Vit{config}; });
  };
  says(make([](auto& c) { c.labels.clear(); }), "names of its classes");
  says(make([](auto& c) { c.head = "clasifier"; }), "did you mean \"classifier\"");
  says(make([](auto& c) { c.image_size = {}; }), "image_size has 0 numbers");
  says(make([](auto& c) { c.patch_size = {9}; }), "patches of 9 x 9 do not fit");
  says(make([](auto& c) { c.position = "rope2d"; }), "did you mean \"rope_2d\"");
  says(make([](auto& c) { c.position = "rope_2d", c.heads = 2; }), "head_width is 6, wanted a multiple of 4");
  says(make([](auto& c) { c.heads = 5; }), "does not divide into 5 heads");
  says(make([](auto& c) { c.head = "none", c.pooler_activation = "tahn"; }), "tanh");
  VitConfig features = small_vit();
  features.head = "none";
  says(error_of([&] { Vit(features)->loss({.images = images}); }), "no loss");
}

}  // namespace
}  // namespace fovea
