// T5 and BART by their promises; their numbers are held against transformers in tests/parity.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/models/bart.h"
#include "fovea/models/registry.h"
#include "fovea/models/t5.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

T5 small_t5(bool gated = false) {
  at::manual_seed(3);
  return T5(T5Config{.vocab_size = 17,
                     .width = 12,
                     .head_width = 5,
                     .hidden = 20,
                     .layers = 2,
                     .decoder_layers = 2,
                     .heads = 3,
                     .activation = gated ? "gelu_new" : "relu",
                     .gated = gated,
                     .dropout = 0,
                     .tied = !gated,
                     .scale_logits = !gated});
}
Bart small_bart() {
  at::manual_seed(3);
  return Bart(BartConfig{.vocab_size = 17,
                         .positions = 16,
                         .width = 12,
                         .encoder_layers = 2,
                         .decoder_layers = 2,
                         .encoder_heads = 3,
                         .decoder_heads = 2,
                         .encoder_hidden = 20,
                         .decoder_hidden = 14,
                         .dropout = 0,
                         .scale_embedding = true});
}

std::vector<std::shared_ptr<EncoderDecoderImpl>> both_models() {
  std::vector<std::shared_ptr<EncoderDecoderImpl>> out{small_t5().ptr(), small_t5(true).ptr(), small_bart().ptr()};
  for (auto& model : out) {
    for (auto& item : model->named_parameters()) item.value().data().normal_(0, 0.4);
    model->to(torch::kDouble);
    model->eval();
  }
  return out;
}

Tensor pair_ids(int64_t rows, int64_t columns, int64_t first) {
  return at::arange(rows * columns).mul(5).add(first).remainder(13).add(4).view({rows, columns});
}
bool pairs_agree(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

TEST(EncoderDecoderModels, CachedStepsEqualTheWholeAlsoReorderedAndCropped) {
  const torch::NoGradGuard no_grad;
  for (const auto& model : both_models()) {
    const auto source = pair_ids(3, 6, 1), target = pair_ids(3, 7, 2), lengths = at::tensor({6, 2, 4}, at::kLong);
    const auto whole = model->forward({.ids = source, .lengths = lengths, .target_ids = target});
    DecoderState state = model->begin(source, lengths);
    for (int64_t t = 0; t < 5; ++t)
      EXPECT_TRUE(pairs_agree(model->step(target.slice(1, t, t + 1), state), whole.slice(1, t, t + 1)));
    const auto rows = at::tensor({1, 1, 0, 2}, at::kLong);  // beams
    state.reorder(rows);
    state.crop(4);
    EXPECT_TRUE(pairs_agree(model->step(target.index_select(0, rows).slice(1, 4), state),
                            whole.index_select(0, rows).slice(1, 4)));
    const auto alone =
        model->forward({.ids = source.slice(0, 1, 2).slice(1, 0, 2), .target_ids = target.slice(0, 1, 2)});
    EXPECT_TRUE(pairs_agree(whole.slice(0, 1, 2), alone));
  }
}

TEST(EncoderDecoderModels, LabelsShiftedRightAreWhatTheDecoderReads) {
  const torch::NoGradGuard no_grad;
  for (const auto& model : both_models()) {
    const auto source = pair_ids(2, 4, 1), labels = pair_ids(2, 3, 2);
    labels[1][2] = kIgnore;
    labels[1][1] = kIgnore;
    const int64_t start = model->config()["decoder_start_token_id"], pad = model->config()["pad_token_id"];
    EXPECT_EQ(start, model->type() == "t5" ? 0 : 2);
    auto target = at::cat({at::full({2, 1}, start, at::kLong), labels.slice(1, 0, 2)}, 1);
    target[1][2] = pad;
    const Batch by_labels{.ids = source, .labels = labels};
    const Batch by_both{.ids = source, .target_ids = target, .labels = labels};
    EXPECT_TRUE(at::equal(model->forward(by_labels), model->forward(by_both)));
    const LossSum loss = model->loss(by_labels);
    EXPECT_EQ(loss.count, 4);
    EXPECT_TRUE(at::equal(loss.sum, model->loss(by_both).sum));
    EXPECT_NE(error_of([&] { model->forward({.ids = source}); }).find("no target_ids"), std::string::npos);
  }
}

TEST(EncoderDecoderModels, AConfigurationGoesThroughItsJson) {
  for (const auto& model : both_models()) {
    const auto json = model->config();
    EXPECT_EQ(make_model(json)->config(), json) << json;
  }
  // Roles that a folder leaves out are the paper's; null takes them away.
  EXPECT_EQ(T5Impl::read_config({{"pad_token_id", 3}}).roles.decoder_start, -1);
  EXPECT_EQ(T5(T5Impl::read_config({{"vocab_size", 9}, {"d_model", 4}, {"pad_token_id", 3}}))
                ->config()["decoder_start_token_id"],
            3);
  const auto bart = BartImpl::read_config({{"forced_eos_token_id", nullptr}, {"eos_token_id", {5, 6}}});
  EXPECT_EQ(bart.forced_eos, -1);
  EXPECT_EQ(bart.roles.eos, (std::vector<int64_t>{5, 6}));
}

// Mesh TensorFlow's deviations; queries are small because scores are not scaled.
TEST(T5Model, StartsWithItsOwnWeights) {
  at::manual_seed(4);
  const T5 model(T5Config{
      .vocab_size = 300, .width = 64, .head_width = 48, .hidden = 256, .layers = 2, .decoder_layers = 2, .heads = 4});
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    double wanted = 1;
    if (name.ends_with("query.weight")) wanted = 1 / std::sqrt(64.0 * 48);
    if (name.ends_with("key.weight") || name.ends_with("value.weight") || name.ends_with("up.weight") ||
        name.ends_with("position.weight"))
      wanted = 1 / std::sqrt(64.0);
    if (name.ends_with("output.weight")) wanted = 1 / std::sqrt(4.0 * 48);
    if (name.ends_with("down.weight")) wanted = 1 / std::sqrt(256.0);
    if (name.find("norm") != name.npos) {
      EXPECT_TRUE(at::equal(item.value(), at::ones_like(item.value()))) << name;
    } else {
      EXPECT_NEAR(item.value().std().item<double>() / wanted, 1, name.ends_with("position.weight") ? 0.25 : 0.05)
          << name;
    }
  }
}

TEST(T5Model, DropoutStandsWhereTheOriginalHasIt) {
  at::manual_seed(5);
  T5 model(T5Config{.vocab_size = 17,
                    .width = 12,
                    .head_width = 5,
                    .hidden = 20,
                    .layers = 1,
                    .decoder_layers = 1,
                    .heads = 3,
                    .dropout = 1});
  model->eval();
  const auto ids = pair_ids(1, 5, 1);
  EXPECT_GT(model->encode(ids).abs().max().item<double>(), 0);
  model->train();
  EXPECT_EQ(model->encode(ids).abs().max().item<double>(), 0);  // behind the final norm too
}

TEST(T5Model, WithoutAProjectionOfItsOwnTheEmbeddingTakesItsPlace) {
  T5 model = small_t5(true);
  const int64_t before = model->parameter_count();
  model->leave_out({"lm_head.weight"});
  EXPECT_EQ(model->parameter_count(), before - 17 * 12);
  EXPECT_EQ(model->config()["tie_word_embeddings"], true);
  EXPECT_EQ(model->config()["scale_decoder_outputs"], false);
  const auto names = model->tensor_names();
  EXPECT_TRUE(
      std::none_of(names.begin(), names.end(), [](const auto& name) { return name.stored == "lm_head.weight"; }));
  EXPECT_EQ(model->forward({.ids = pair_ids(1, 3, 1), .target_ids = pair_ids(1, 2, 1)}).size(2), 17);
}

TEST(BartModel, ItsLogitsBiasIsNotLearned) {
  Bart model = small_bart();
  const Tensor bias = model->named_parameters()["logits_bias"];
  EXPECT_FALSE(bias.requires_grad());
  EXPECT_EQ(bias.abs().max().item<double>(), 0);
  const torch::NoGradGuard no_grad;
  model->eval();
  const Batch batch{.ids = pair_ids(1, 3, 1), .target_ids = pair_ids(1, 2, 1)};
  const Tensor before = model->forward(batch);
  bias.data()[0][5] = 2;
  const Tensor grown = model->forward(batch) - before;
  EXPECT_TRUE(at::allclose(grown.select(2, 5), at::full({1, 2}, 2.0), 1e-5, 1e-5));
  EXPECT_EQ(grown.slice(2, 6).abs().max().item<double>(), 0);
}

TEST(EncoderDecoderModels, BadConfigurationsOfFoldersAreNamed) {
  const auto says = [](nlohmann::json json, const nlohmann::json& change, const char* part) {
    json.update(change);
    const auto message = error_of([&] { make_model(json); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto t5 = small_t5()->config(), bart = small_bart()->config();
  says(t5, {{"is_encoder_decoder", false}}, "is_encoder_decoder");
  says(t5, {{"feed_forward_proj", "gated-gulu"}}, "unknown activation \"gulu\"");
  says(t5, {{"d_kv", 0}}, "\"d_kv\" is 0");
  says(t5, {{"relative_attention_num_buckets", 7}}, "buckets is 7");
  says(t5, {{"dropout_rate", 1.5}}, "1.5");
  says(bart, {{"normalize_before", true}}, "normalize_before");
  says(bart, {{"encoder_layerdrop", 0.1}}, "encoder_layerdrop");
  says(bart, {{"extra_pos_embeddings", 3}}, "extra_pos_embeddings");
  says(bart, {{"encoder_attention_heads", 5}}, "does not divide into 5 heads");
  says(bart, {{"decoder_start_token_id", -7}}, "wanted a token id");
  EXPECT_NE(error_of([&] {
              small_bart()->forward({.ids = pair_ids(1, 17, 1), .target_ids = pair_ids(1, 2, 1)});
            }).find("17 tokens does not fit the 16 positions"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
