// Longformer by its promises; its numbers are held against transformers in tests/parity/test_longformer.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/longformer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/base/log.h"
#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

const std::vector<std::string> kLongformerHeads{"none", "masked_lm", "classifier", "token_classifier",
                                                "question_answering"};

LongformerConfig longformer_config(const std::string& head) {
  LongformerConfig c{.bert = {.type = "longformer",
                              .head = head,
                              .vocab_size = 13,
                              .positions = 16,
                              .width = 12,
                              .layers = 2,
                              .heads = 3,
                              .pad_token_id = 1},
                     .windows = {2, 6}};
  if (head == "classifier" || head == "token_classifier") c.bert.labels = {"a", "b", "c"};
  return c;
}

Longformer wide_longformer(const LongformerConfig& config) {
  at::manual_seed(5);
  Longformer model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  model->to(torch::kDouble);
  model->eval();
  return model;
}
Longformer wide_longformer(const std::string& head) { return wide_longformer(longformer_config(head)); }

// No padding; row b's separators (2) stand in slots 1, 2 and 4.
Tensor longformer_ids(int64_t rows, int64_t columns) {
  auto ids = at::arange(rows * columns).mul(7).remainder(10).add(3).view({rows, columns});
  for (const int64_t slot : {1, 2, 4})
    if (slot < columns) ids.select(1, slot).fill_(2);
  return ids;
}
Tensor slots(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }
bool longformer_near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

void longformer_says(const std::function<void()>& call, const char* part) {
  const auto message = error_of(call);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(LongformerModel, ARowDoesNotDependOnItsMatesNorOnTheSideOfItsPadding) {
  const torch::NoGradGuard no_grad;
  for (const std::string& head : kLongformerHeads) {
    const auto model = wide_longformer(head);
    const auto ids = longformer_ids(3, 8);
    auto marks = at::zeros({3, 8}, at::kBool);
    marks[1][0].fill_(true), marks[1][3].fill_(true), marks[0].fill_(true);
    const bool by_head = head == "classifier" || head == "question_answering";
    const auto given = [&](const Tensor& global) { return by_head ? Tensor() : global; };
    const auto alone = model->forward(
        {.ids = ids.slice(0, 1, 2).slice(1, 0, 5), .global = given(marks.slice(0, 1, 2).slice(1, 0, 5))})[0];
    const auto right = model->forward({.ids = ids, .lengths = slots({8, 5, 5}), .global = given(marks)})[1];
    const auto shifted = [&](const Tensor& x) { return x.index_put({slots({1})}, at::roll(x[1], 2)); };
    const auto left = model->forward({.ids = shifted(ids),
                                      .lengths = slots({8, 5, 5}),
                                      .start = slots({0, 2, 0}),
                                      .global = given(shifted(marks))})[1];
    const bool rows = model->head() == "classifier";
    EXPECT_TRUE(longformer_near(rows ? right : right.slice(0, 0, 5), alone)) << head;
    EXPECT_TRUE(longformer_near(rows ? left : left.slice(0, 2, 7), alone)) << head;
  }
}

TEST(LongformerModel, OnlyTheWindowAndGlobalTokensReachAToken) {
  auto c = longformer_config("none");
  c.windows = {2};
  c.bert.layers = 1;
  const auto model = wide_longformer(c);
  const auto ids = longformer_ids(1, 9);
  const auto changed = [&](int64_t slot, const Tensor& global) {  // which tokens see a change of one
    auto other = ids.clone();
    other[0][slot] = 4;
    const auto difference =
        model->encode({.ids = ids, .global = global}) - model->encode({.ids = other, .global = global});
    return difference.abs().sum({0, 2}).gt(1e-9);
  };
  EXPECT_TRUE(at::equal(changed(4, {}), at::tensor({0, 0, 0, 1, 1, 1, 0, 0, 0}).to(at::kBool)));
  auto global = at::zeros({1, 9}, at::kBool);
  global[0][7].fill_(true);
  EXPECT_TRUE(at::equal(changed(4, global), at::tensor({0, 0, 0, 1, 1, 1, 0, 1, 0}).to(at::kBool)));
  EXPECT_TRUE(changed(7, global).all().item<bool>());
}

TEST(LongformerModel, AWindowWiderThanTheTextShowsAllOfIt) {
  auto c = longformer_config("masked_lm");
  c.windows = {30};
  const auto wide = wide_longformer(c);
  c.windows = {1 << 20};
  const auto wider = wide_longformer(c);
  EXPECT_TRUE(
      longformer_near(wide->forward({.ids = longformer_ids(2, 9)}), wider->forward({.ids = longformer_ids(2, 9)})));
}

TEST(LongformerModel, TheQuestionIsGlobalWhereAnswersAreSought) {
  const auto model = wide_longformer("question_answering");
  const auto global = model->global_tokens({.ids = longformer_ids(2, 8), .lengths = slots({8, 6})});
  EXPECT_TRUE(at::equal(global, at::tensor({1, 0, 0, 0, 0, 0, 0, 0}).to(at::kBool).expand({2, 8})));
  const auto first =
      wide_longformer("classifier")->global_tokens({.ids = longformer_ids(2, 4), .start = slots({2, 0})});
  EXPECT_TRUE(at::equal(first, at::tensor({0, 0, 1, 0, 1, 0, 0, 0}).to(at::kBool).view({2, 4})));
  EXPECT_FALSE(wide_longformer("masked_lm")->global_tokens({.ids = longformer_ids(2, 4)}).defined());
  longformer_says([&] { model->forward({.ids = longformer_ids(2, 4)}); },
                  "row 0 has 2 separators (token 2), wanted the three");
}

TEST(LongformerModel, PackedTextsEqualSingleOnes) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_longformer("masked_lm");
  const auto ids = longformer_ids(1, 7);
  const auto global = at::tensor({1, 0, 0, 0, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  const auto packed = model->forward({.ids = ids,
                                      .global = global,
                                      .documents = slots({0, 0, 0, 1, 1, 1, 1}).unsqueeze(0),
                                      .positions = slots({0, 1, 2, 0, 1, 2, 3}).unsqueeze(0)});
  const auto single = [&](int64_t begin, int64_t end) {
    return model->forward({.ids = ids.slice(1, begin, end), .global = global.slice(1, begin, end)});
  };
  EXPECT_TRUE(longformer_near(packed.slice(1, 0, 3), single(0, 3)));
  EXPECT_TRUE(longformer_near(packed.slice(1, 3, 7), single(3, 7)));
}

TEST(LongformerModel, ARowWithoutTokensIsClassifiedAsAnyPadding) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_longformer("classifier");
  const auto ids = longformer_ids(2, 8);
  ids[1].fill_(1);  // the padding's id
  const auto right = model->forward({.ids = ids, .lengths = slots({8, 0})});
  const auto left = model->forward({.ids = ids, .lengths = slots({8, 0}), .start = slots({0, 8})});
  EXPECT_TRUE(longformer_near(left, right));
  EXPECT_TRUE(longformer_near(model->forward({.ids = at::zeros({2, 0}, at::kLong)}), right[1].expand({2, 3})));
  for (const int64_t T : {0, 4})
    EXPECT_EQ(model->forward({.ids = at::zeros({0, T}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(LongformerModel, NoTokensOneTokenAndWrongCalls) {
  const torch::NoGradGuard no_grad;
  for (const std::string head : {"none", "masked_lm", "token_classifier", "question_answering"}) {
    const auto model = wide_longformer(head);
    EXPECT_EQ(model->forward({.ids = at::zeros({2, 0}, at::kLong)}).size(1), 0) << head;
    EXPECT_EQ(model->forward({.ids = at::zeros({0, 4}, at::kLong)}).size(0), 0) << head;
  }
  const auto model = wide_longformer("masked_lm");
  const auto one = longformer_ids(1, 1), mark = at::ones({1, 1}, at::kBool);
  EXPECT_TRUE(model->forward({.ids = one, .global = mark}).isfinite().all().item<bool>());
  EXPECT_TRUE(
      model->forward({.ids = longformer_ids(2, 3), .lengths = slots({0, 1}), .global = at::zeros({2, 3}, at::kBool)})
          .isfinite()
          .all()
          .item<bool>());
  EXPECT_EQ(wide_longformer("classifier")->forward({.ids = one}).sizes(), (std::vector<int64_t>{1, 3}));
  const auto marks = at::ones({1, 4}, at::kBool);
  longformer_says([&] { model->forward({.ids = longformer_ids(1, 3), .global = marks}); }, "wanted bool [1, 3]");
  longformer_says([&] { model->forward({.ids = longformer_ids(1, 4), .lengths = slots({3}), .global = marks}); },
                  "row 0 marks 4 tokens as global, it has 3");
  longformer_says([&] { model->forward({.ids = longformer_ids(1, 4), .global = marks.to(at::kDouble)}); },
                  "global is Double");
  longformer_says(
      [&] {
        model->forward({.ids = at::zeros({1, 17}, at::kLong)});
      },
      "17 tokens does not fit the 16 positions");
  longformer_says([&] { model->forward({.labels = slots({1})}); }, "no ids");
}

TEST(LongformerModel, TheKernelsTakeAllOfIt) {
  auto model = Longformer(longformer_config("classifier"));  // f32
  std::vector<std::string> lines;
  set_log_callback([&](std::string_view topic, std::string_view line) {
    if (topic == "dispatch") lines.emplace_back(line);
  });
  model->loss({.ids = longformer_ids(2, 16), .lengths = slots({16, 9}), .labels = slots({0, 2})}).sum.backward();
  set_log_callback({});
  EXPECT_EQ(lines.size(), 4u);  // two layers, the window's rows and the global ones
  for (const auto& line : lines) EXPECT_EQ(line.find("reference"), std::string::npos) << line;
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
}

TEST(LongformerModel, AnotherHeadKeepsTheEncoder) {
  const auto model = wide_longformer("masked_lm");
  const auto other = model->with_head("token_classifier", {"x", "y"});
  other->to(at::kDouble);
  EXPECT_TRUE(
      longformer_near(model->encode({.ids = longformer_ids(2, 9)}), other->encode({.ids = longformer_ids(2, 9)})));
}

TEST(LongformerModel, BadConfigurations) {
  const auto windows = [](std::vector<int64_t> given, const char* part) {
    auto c = longformer_config("masked_lm");
    c.windows = std::move(given);
    longformer_says([&] { Longformer{c}; }, part);
  };
  windows({3}, "attention_window is 3, wanted an even number above 0");
  windows({0}, "attention_window is 0");
  windows({-2}, "attention_window is -2");
  windows({}, "attention_window has 0 entries, wanted 1 or one for each of 2 layers");
  windows({2, 2, 2}, "has 3 entries");
  auto c = longformer_config("pretraining");
  longformer_says([&] { Longformer{c}; }, "unknown head \"pretraining\"");
}

TEST(LongformerModel, ConfigJsonThereAndBack) {
  for (const std::string& head : kLongformerHeads) {
    const auto json = Longformer(longformer_config(head))->config();
    EXPECT_EQ(make_model(json)->config(), json) << head;
    EXPECT_EQ(json["attention_window"], nlohmann::json({2, 6}));
  }
  auto json = Longformer(longformer_config("masked_lm"))->config();
  json["attention_window"] = 4;
  EXPECT_EQ(make_model(json)->config()["attention_window"], nlohmann::json({4, 4}));
  json["attention_window"] = {4, "6"};
  longformer_says([&] { make_model(json); }, "\"attention_window\": wanted whole numbers, got \"6\"");
}

}  // namespace
}  // namespace fovea
