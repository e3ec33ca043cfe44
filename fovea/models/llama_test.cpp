// Llama and its kin by their promises; their numbers are held against transformers in tests/parity/test_llama.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/llama.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/models/registry.h"
#include "fovea/models/rope_json.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

LlamaConfig llama_of(const std::string& type) {
  LlamaConfig c{.type = type,
                .vocab_size = 13,
                .width = 12,
                .hidden = 20,
                .layers = 2,
                .heads = 4,
                .kv_heads = 2,
                .head_width = 4,
                .positions = 24};
  c.attention_bias = type == "qwen2";
  if (type != "llama") c.window = 5;
  return c;
}

Llama wide_llama(const LlamaConfig& config) {
  at::manual_seed(2);
  Llama model(config);
  for (auto& item : model->named_parameters()) item.value().data().normal_(0, 0.3);
  model->to(torch::kDouble);
  model->eval();
  return model;
}

Tensor llama_ids(int64_t rows, int64_t columns) {
  return at::arange(rows * columns).mul(7).add(3).remainder(13).view({rows, columns});
}
bool llama_near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

TEST(LlamaModel, CachedStepsEqualTheWholeAlsoAfterACrop) {
  const torch::NoGradGuard no_grad;
  for (const char* type : {"llama", "mistral", "qwen2"}) {
    const auto model = wide_llama(llama_of(type));
    const auto ids = llama_ids(2, 14), whole = model->forward({.ids = ids});
    DecoderState state = model->begin();
    EXPECT_TRUE(llama_near(model->step(ids.slice(1, 0, 6), state), whole.slice(1, 0, 6))) << type;
    for (int64_t t = 6; t < 14; ++t)
      EXPECT_TRUE(llama_near(model->step(ids.slice(1, t, t + 1), state), whole.slice(1, t, t + 1))) << type << t;
    state.crop(9);
    EXPECT_TRUE(llama_near(model->step(ids.slice(1, 9), state, /*last_only=*/true), whole.slice(1, 13))) << type;
  }
}

TEST(LlamaModel, ARowDoesNotDependOnItsMatesNorOnTheSideOfItsPadding) {
  const torch::NoGradGuard no_grad;
  for (const char* type : {"llama", "mistral"}) {
    const auto model = wide_llama(llama_of(type));
    const auto ids = llama_ids(2, 12), alone = model->forward({.ids = ids.slice(0, 1).slice(1, 0, 9)});
    const auto right = model->forward({.ids = ids, .lengths = at::tensor({12, 9}, at::kLong)});
    EXPECT_TRUE(llama_near(right[1].slice(0, 0, 9), alone[0])) << type;
    DecoderState state = model->begin();
    state.start = at::tensor({0, 3}, at::kLong);
    const auto shifted = at::stack({ids[0], at::roll(ids[1], 3)});
    const auto left = at::cat({model->step(shifted.slice(1, 0, 7), state), model->step(shifted.slice(1, 7), state)}, 1);
    EXPECT_TRUE(llama_near(left[1].slice(0, 3), alone[0])) << type;
  }
}

TEST(LlamaModel, AConfigurationGoesThroughItsJson) {
  std::vector<LlamaConfig> all{llama_of("llama"), llama_of("mistral"), llama_of("qwen2")};
  all[0].attention_bias = all[0].output_bias = all[0].feed_forward_bias = all[0].tied = true;
  all[0].rope_scaling = {
      .type = "yarn", .factor = 4, .original_positions = 8, .beta_fast = 16, .mscale = 0.5, .mscale_all = 0.7};
  all[0].roles = {.bos = 3, .eos = {4, 5}, .pad = 0};
  all[1].rope_scaling = {.type = "llama3", .factor = 8, .original_positions = 16, .low_frequency = 2};
  all[2].window = 0;
  for (const LlamaConfig& config : all) {
    const auto json = Llama(config)->config();
    EXPECT_EQ(make_model(json)->config(), json) << json;
    EXPECT_EQ(make_model(json)->type(), config.type);
  }
}

TEST(LlamaModel, ScalingSaysHowLongTextsMayBe) {
  LlamaConfig config = llama_of("llama");
  EXPECT_EQ(Llama(config)->max_positions(), 24);
  config.rope_scaling = {.type = "linear", .factor = 2.5};
  EXPECT_EQ(Llama(config)->max_positions(), 60);
  // Its angles follow the text, however long that is.
  config.rope_scaling = {.type = "dynamic", .factor = 2, .original_positions = 24};
  EXPECT_EQ(Llama(config)->max_positions(), PositionImpl::kNoLimit);
  EXPECT_TRUE(Llama(config)->forward({.ids = llama_ids(1, 60)}).isfinite().all().item<bool>());
  config.rope_scaling = {.type = "llama3", .factor = 4, .original_positions = 6};
  EXPECT_EQ(Llama(config)->max_positions(), 24);
  const auto message = error_of([&] { Llama(config)->forward({.ids = llama_ids(1, 25)}); });
  EXPECT_NE(message.find("25 tokens does not fit the 24 positions"), std::string::npos) << message;
}

TEST(LlamaModel, OlderFoldersNameTheirRotationElsewhere) {
  double base = 10000;
  RopeScaling scaling;
  read_rope({{"rope_theta", 500000.0}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}, 64, base, scaling);
  EXPECT_EQ(base, 500000);
  EXPECT_EQ(scaling.type, "dynamic");
  EXPECT_EQ(scaling.original_positions, 64);
  read_rope({{"rope_theta", 20.0}, {"rope_scaling", nullptr}}, 64, base, scaling);
  EXPECT_EQ(base, 20);
  EXPECT_EQ(scaling.type, "none");
  read_rope(
      {{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 30}, {"original_max_position_embeddings", 16}}}}, 64,
      base, scaling);
  EXPECT_EQ(base, 30);
  EXPECT_EQ(scaling.factor, 4);  // from the two lengths
  EXPECT_NE(error_of([&] {
              read_rope({{"rope_scaling", 3}}, 64, base, scaling);
            }).find("wanted an object"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              read_rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"mscale", 1}}}}, 64, base, scaling);
            }).find("\"mscale\""),
            std::string::npos);
}

TEST(LlamaModel, WhatATypeCannotSayIsRefused) {
  const auto says = [](LlamaConfig config, const char* part) {
    const auto message = error_of([&] { Llama{config}; });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto with = [](const char* type, auto change) {
    LlamaConfig config = llama_of(type);
    change(config);
    return config;
  };
  says(with("llama", [](auto& c) { c.window = 4; }), "that is a mistral");
  says(with("llama", [](auto& c) { c.attention_bias = true; }), "both or none in a llama");
  says(with("mistral", [](auto& c) { c.attention_bias = true; }), "none in a mistral");
  says(with("qwen2", [](auto& c) { c.attention_bias = false; }), "the first in a qwen2");
  says(with("qwen2", [](auto& c) { c.feed_forward_bias = true; }), "no biases");
  says(with("llama", [](auto& c) { c.type = "lama"; }), "did you mean \"llama\"");
  says(with("llama", [](auto& c) { c.kv_heads = 3; }), "kv_heads is 3");
  says(with("llama", [](auto& c) { c.head_width = 3; }), "rotary_width is 3");
  says(with("llama", [](auto& c) { c.head_width = int64_t{1} << 40; }), "stack: ");
  says(with("llama", [](auto& c) { c.rope_scaling = {.type = "linear", .factor = -1}; }), "factor is -1");
  says(with("llama", [](auto& c) { c.positions = 0; }), "positions is 0");
  says(with("mistral", [](auto& c) { c.window = -1; }), "window is -1");
}

TEST(LlamaModel, BadConfigurationsOfFoldersAreNamed) {
  const auto says = [](const char* type, const nlohmann::json& change, const char* part) {
    nlohmann::json json = Llama(llama_of(type))->config();
    json.update(change);
    const auto message = error_of([&] { make_model(json); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("qwen2", {{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types");
  says("qwen2", {{"max_window_layers", 1}}, "\"max_window_layers\" is 1 of 2");
  says("mistral", {{"sliding_window", 0}, {"layer_types", {"sliding_attention"}}}, "\"sliding_window\" is 0");
  says("llama", {{"hidden_size", -1}}, "\"hidden_size\" is -1");
  says("llama", {{"num_key_value_heads", 0}}, "\"num_key_value_heads\" is 0");
  says("llama", {{"rope_parameters", {{"rope_type", "longrope"}}}}, "longrope");
  says("llama", {{"eos_token_id", {1, "two"}}}, "wanted a token id");
  says("llama", {{"quantization_config", {{"bits", 8}}}}, "quantized");
}

}  // namespace
}  // namespace fovea
