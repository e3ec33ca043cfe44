// The decoder of named parts, for every position encoding and variant that can be one.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/decoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/attention/variants/registry.h"
#include "fovea/models/registry.h"
#include "fovea/positions/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

DecoderConfig named_decoder(const std::string& position, const std::string& attention) {
  return {.vocab_size = 13,
          .width = 8,
          .layers = 2,
          .heads = 2,
          .kv_heads = 1,
          .hidden = 12,
          .position = position,
          .positions = {.max_positions = 24},
          .attention = attention};
}

bool decoder_exists(const std::string& position, const std::string& attention) {
  if (attention == "linformer" || attention == "longformer" || position.ends_with("_2d")) return false;
  for (const char* scored : {"alibi", "t5_bias", "relative_keys", "xl_relative", "rope"})
    if (attention != "softmax" && position == scored) return false;
  return true;
}

TEST(DecoderModel, CachedStepsEqualTheWholeWhateverItsParts) {
  const torch::NoGradGuard no_grad;
  for (const auto& attention : variants_registry().names()) {
    for (const auto& position : positions_registry().names()) {
      if (!decoder_exists(position, attention)) continue;
      at::manual_seed(2);
      Decoder model(named_decoder(position, attention));
      for (auto& item : model->named_parameters()) item.value().data().normal_(0, 0.3);
      model->to(torch::kDouble);
      model->eval();
      const auto ids = at::arange(26).mul(7).remainder(13).view({2, 13});
      const auto whole = model->forward({.ids = ids});
      DecoderState state = model->begin();
      std::vector<Tensor> steps{model->step(ids.slice(1, 0, 5), state)};
      for (int64_t t = 5; t < 13; ++t) steps.push_back(model->step(ids.slice(1, t, t + 1), state));
      EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 1e-9, 1e-9)) << position << ' ' << attention;

      const auto right = model->forward({.ids = ids, .lengths = at::tensor({13, 9}, at::kLong)});
      EXPECT_TRUE(at::allclose(right[1].slice(0, 0, 9), whole[1].slice(0, 0, 9), 1e-9, 1e-9)) << position;
      DecoderState left = model->begin();
      left.start = at::tensor({0, 3}, at::kLong);
      const auto shifted = at::stack({ids[0], at::roll(ids[1], 3)});
      steps = {model->step(shifted.slice(1, 0, 7), left), model->step(shifted.slice(1, 7), left)};
      EXPECT_TRUE(at::allclose(at::cat(steps, 1)[1].slice(0, 3), whole[1].slice(0, 0, 10), 1e-9, 1e-9))
          << position << ' ' << attention;
    }
  }
}

TEST(DecoderModel, BeamsOfLinearAttentionMoveTheirState) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(2);
  Decoder model(named_decoder("sinusoidal", "linear"));
  model->to(torch::kDouble);
  model->eval();
  const auto ids = at::arange(26).mul(7).remainder(13).view({2, 13}), rows = at::tensor({1, 1, 0}, at::kLong);
  DecoderState state = model->begin();
  model->step(ids.slice(1, 0, 12), state);
  state.reorder(rows);
  const auto wanted = model->forward({.ids = ids}).slice(1, 12).index_select(0, rows);
  EXPECT_TRUE(at::allclose(model->step(ids.slice(1, 12).index_select(0, rows), state), wanted, 1e-9, 1e-9));
  EXPECT_NE(error_of([&] { state.crop(5); }).find("in one sum"), std::string::npos);
}

TEST(DecoderModel, ItsConfigurationMakesItAgain) {
  DecoderConfig config = named_decoder("rope", "softmax");
  config.positions.scaling = {.type = "yarn", .factor = 2, .original_positions = 12};
  config.norm = "rms";
  config.activation = "swiglu";
  config.tied = false;
  for (const auto& c : {config, named_decoder("alibi", "softmax"), named_decoder("none", "linear")}) {
    const auto json = Decoder(c)->config();
    EXPECT_EQ(make_model(json)->config(), json);
  }
  const auto says = [](DecoderConfig c, const char* part) {
    const auto message = error_of([&] { Decoder{c}; });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  config.positions.scaling.factor = 0.5;
  says(config, "factor is 0.5, wanted a number from 1 on");
  says(named_decoder("ropes", "softmax"), "did you mean \"rope\"");
  says(named_decoder("none", "linaer"), "did you mean \"linear\"");
  says(named_decoder("none", "linformer"), "\"linformer\" mixes all keys before a query comes");
  says(named_decoder("none", "linformer"), "wanted \"linear\" or \"softmax\"");
  says(named_decoder("none", "longformer"), "\"longformer\" is told which tokens are global");
  says(named_decoder("none", "longformer"), "wanted \"linear\" or \"softmax\"");
  for (const char* flat : {"rope_2d", "sinusoidal_2d"})
    says(named_decoder(flat, "softmax"), "is of rows and columns, which a text has not");
  says(named_decoder("rope", "linear"), "turns query and key, of whose product attention \"linear\" makes no scores");
  for (const char* other : {"alibi", "rope"})
    says(named_decoder(other, "linear"), "take \"sinusoidal\" or \"learned\"");
  for (const char* biased : {"alibi", "t5_bias", "relative_keys", "xl_relative"})
    says(named_decoder(biased, "linear"), "shifts scores, of which attention \"linear\" has none");
  config = named_decoder("none", "softmax");
  config.kv_heads = 3;
  says(config, "kv_heads is 3");
}

}  // namespace
}  // namespace fovea
