// BigBird by its promises; its numbers are held against transformers in tests/parity/test_bigbird.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bigbird.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/base/log.h"
#include "fovea/models/random_blocks.h"
#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

const std::vector<std::string> kBigBirdHeads{"none",       "masked_lm",        "pretraining",
                                             "classifier", "token_classifier", "question_answering"};

// Sparse from 11 tokens on: 6 blocks of 2.
BigBirdConfig bigbird_config(const std::string& head) {
  BigBirdConfig c{.bert = {.type = "big_bird",
                           .head = head,
                           .vocab_size = 13,
                           .positions = 40,
                           .width = 12,
                           .layers = 2,
                           .heads = 3,
                           .dropout = 0,
                           .attention_dropout = 0},
                  .block_size = 2,
                  .random_blocks = 1,
                  .sep_token_id = 5};
  if (head == "classifier" || head == "token_classifier") c.bert.labels = {"a", "b", "c"};
  return c;
}

BigBird wide_bigbird(const BigBirdConfig& config) {
  at::manual_seed(5);
  BigBird model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  model->to(torch::kDouble);
  model->eval();
  return model;
}
BigBird wide_bigbird(const std::string& head) { return wide_bigbird(bigbird_config(head)); }

Tensor bigbird_ids(int64_t rows, int64_t columns) {
  return at::arange(rows * columns).mul(7).add(3).remainder(12).add(1).view({rows, columns});
}
Tensor numbers(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }
bool bigbird_near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

void bigbird_says(const std::function<void()>& call, const char* part) {
  const auto message = error_of(call);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(BigBirdModel, ARowDoesNotDependOnItsMatesNorOnTheSideOfItsPadding) {
  const torch::NoGradGuard no_grad;
  for (const std::string& head : kBigBirdHeads) {
    for (const bool training : {false, true}) {
      auto model = wide_bigbird(head);
      model->train(training);
      for (const int64_t length : {5, 17, 20}) {  // short, sparse, sparse
        const auto ids = bigbird_ids(3, 29);
        const auto alone = model->forward({.ids = ids.slice(0, 1, 2).slice(1, 0, length)})[0];
        const auto right = model->forward({.ids = ids, .lengths = numbers({29, length, 1})})[1];
        const auto shifted = ids.index_put({numbers({1})}, at::roll(ids[1], 3));
        const auto left =
            model->forward({.ids = shifted, .lengths = numbers({29, length, 1}), .start = numbers({0, 3, 7})})[1];
        const bool rows = model->head() == "classifier";
        EXPECT_TRUE(bigbird_near(rows ? right : right.slice(0, 0, length), alone)) << head << ' ' << length;
        EXPECT_TRUE(bigbird_near(rows ? left : left.slice(0, 3, 3 + length), alone)) << head << ' ' << length;
      }
    }
  }
}

TEST(BigBirdModel, ShortTextsAreNotSparse) {
  const torch::NoGradGuard no_grad;
  auto c = bigbird_config("none");
  const auto sparse = wide_bigbird(c);
  c.sparse = false;
  const auto full = wide_bigbird(c);
  const auto ids = bigbird_ids(1, 15);  // 7 blocks are not more than 5 + 2R
  EXPECT_TRUE(bigbird_near(sparse->encode({.ids = ids.slice(1, 0, 14)}), full->encode({.ids = ids.slice(1, 0, 14)})));
  EXPECT_FALSE(bigbird_near(sparse->encode({.ids = ids}), full->encode({.ids = ids})));
}

TEST(BigBirdModel, BlocksSeeNeighboursAndBorders) {
  const torch::NoGradGuard no_grad;
  auto c = bigbird_config("none");
  c.bert.layers = 1;
  c.random_blocks = 0;
  const auto model = wide_bigbird(c);
  const auto ids = bigbird_ids(1, 15);
  const auto changed = [&](int64_t slot) {  // which blocks see a change of one token
    auto other = ids.clone();
    other[0][slot] = other[0][slot].eq(12).item<bool>() ? 11 : 12;
    const auto by_token = (model->encode({.ids = ids}) - model->encode({.ids = other})).abs().sum({0, 2});
    return at::cat({by_token, at::zeros({1}, at::kDouble)}).view({8, 2}).sum(1).gt(1e-9);
  };
  EXPECT_TRUE(at::equal(changed(7), at::tensor({1, 0, 1, 1, 1, 0, 0, 1}).to(at::kBool)));
  EXPECT_TRUE(changed(0).all().item<bool>());
  EXPECT_TRUE(changed(14).all().item<bool>());
}

// From transformers' model in training, with NumPy's generator.
TEST(BigBirdModel, RandomBlocksAreThoseOfTransformers) {
  const auto drawn = [](const RandomBlocksOptions& options, int64_t blocks) {
    return random_blocks(options, blocks).slice(1, 1, blocks - 1).flatten();
  };
  EXPECT_TRUE(at::equal(drawn({.layer = 0, .heads = 2, .size = 5, .each = 1, .positions = 100}, 9),
                        numbers({3, 5, 5, 1, 3, 2, 5, 3, 5, 1, 2, 3, 4, 2})));
  EXPECT_TRUE(at::equal(
      drawn({.layer = 3, .heads = 1, .size = 64, .each = 3, .positions = 4096}, 13),
      numbers({5, 4, 6, 8, 9, 4, 5, 8, 9, 2, 9, 7, 9, 2, 3, 8, 1, 3, 4, 3, 2, 5, 1, 4, 6, 3, 2, 5, 6, 1, 4, 2, 3})));
  // 1024 tokens of a model of 2048: the other rule
  const auto paper = random_blocks({.layer = 1, .heads = 2, .size = 64, .each = 3, .positions = 2048}, 16);
  EXPECT_TRUE(at::equal(paper[0].slice(0, 1, 5).flatten(), numbers({5, 6, 7, 5, 11, 4, 15, 9, 7, 10, 12, 6})));
  EXPECT_TRUE(at::equal(paper[1].slice(0, 12, 15).flatten(), numbers({2, 6, 15, 2, 9, 10, 3, 7, 1})));
  EXPECT_EQ(random_blocks({.each = 0}, 20).numel(), 0);
  bigbird_says([] { random_blocks({.size = 256, .each = 3, .positions = 4096}, 16); }, "are left to it");
}

TEST(BigBirdModel, ARowWithoutTokensIsClassifiedAsAnyPadding) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_bigbird("classifier");
  for (const int64_t T : {4, 20}) {  // dense, sparse
    const auto ids = bigbird_ids(2, T);
    ids[1].fill_(0);  // the padding's id
    const auto right = model->forward({.ids = ids, .lengths = numbers({T, 0})});
    const auto left = model->forward({.ids = ids, .lengths = numbers({T, 0}), .start = numbers({0, T})});
    EXPECT_TRUE(bigbird_near(left, right)) << T;
    EXPECT_TRUE(bigbird_near(model->forward({.ids = at::zeros({2, 0}, at::kLong)}), right[1].expand({2, 3}))) << T;
    EXPECT_EQ(model->forward({.ids = at::zeros({0, T}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 3}));
  }
  EXPECT_EQ(model->forward({.ids = at::zeros({0, 0}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(BigBirdModel, NoTokensOneTokenAndWrongCalls) {
  const torch::NoGradGuard no_grad;
  for (const std::string& head : kBigBirdHeads) {
    const auto model = wide_bigbird(head);
    if (model->head() == "classifier") continue;
    EXPECT_EQ(model->forward({.ids = at::zeros({2, 0}, at::kLong)}).size(1), 0) << head;
    EXPECT_EQ(model->forward({.ids = at::zeros({0, 20}, at::kLong)}).size(0), 0) << head;
    EXPECT_TRUE(model->forward({.ids = bigbird_ids(1, 1)}).isfinite().all().item<bool>()) << head;
    const auto some = model->forward({.ids = bigbird_ids(2, 20), .lengths = numbers({20, 0})});
    EXPECT_TRUE(some.isfinite().all().item<bool>()) << head;
  }
  const auto model = wide_bigbird("masked_lm");
  bigbird_says(
      [&] {
        model->forward({.ids = bigbird_ids(1, 20), .documents = at::zeros({1, 20}, at::kLong)});
      },
      "packed texts");
  bigbird_says([&] { model->forward({.ids = bigbird_ids(1, 41)}); }, "41 tokens does not fit the 40 positions");
}

TEST(BigBirdModel, TheKernelsTakeAllOfIt) {
  for (const bool training : {false, true}) {
    auto model = BigBird(bigbird_config("classifier"));  // f32
    model->train(training);
    std::vector<std::string> lines;
    set_log_callback([&](std::string_view topic, std::string_view line) {
      if (topic == "dispatch") lines.emplace_back(line);
    });
    model->loss({.ids = bigbird_ids(2, 31), .lengths = numbers({31, 9}), .labels = numbers({0, 2})}).sum.backward();
    set_log_callback({});
    EXPECT_EQ(lines.size(), 2u);
    for (const auto& line : lines) EXPECT_EQ(line.find("reference"), std::string::npos) << line;
    for (const auto& parameter : model->named_parameters())
      EXPECT_TRUE(parameter.key().starts_with("unused_pooler") || parameter.value().grad().defined())
          << parameter.key();
  }
}

TEST(BigBirdModel, AnswersInTheQuestionDoNotCompete) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_bigbird("question_answering");
  auto ids = bigbird_ids(2, 9).masked_fill(bigbird_ids(2, 9).eq(5), 6);
  ids[0][3] = 5;
  ids[0][8] = 5;
  const auto out = model->forward({.ids = ids}).lt(-1e5).any(2);
  EXPECT_TRUE(at::equal(out[0], at::tensor({0, 1, 1, 1, 0, 0, 0, 0, 0}).to(at::kBool)));
  EXPECT_FALSE(out[1].any().item<bool>());
}

TEST(BigBirdModel, AnotherHeadKeepsTheEncoder) {
  const auto model = wide_bigbird("masked_lm");
  const auto other = model->with_head("classifier", {"x", "y"});
  other->to(at::kDouble);
  EXPECT_TRUE(bigbird_near(model->encode({.ids = bigbird_ids(2, 29)}), other->encode({.ids = bigbird_ids(2, 29)})));
}

TEST(BigBirdModel, BadConfigurations) {
  auto c = bigbird_config("masked_lm");
  c.block_size = 0;
  bigbird_says([&] { BigBird{c}; }, "block_size is 0, wanted at least 1");
  c = bigbird_config("masked_lm");
  c.random_blocks = -1;
  bigbird_says([&] { BigBird{c}; }, "num_random_blocks is -1, wanted 0 … 1048575");
  c = bigbird_config("next_sentence");
  bigbird_says([&] { BigBird{c}; }, "unknown head \"next_sentence\"");
}

TEST(BigBirdModel, ConfigJsonThereAndBack) {
  for (const std::string& head : kBigBirdHeads) {
    const auto json = BigBird(bigbird_config(head))->config();
    EXPECT_EQ(make_model(json)->config(), json) << head;
  }
  auto json = BigBird(bigbird_config("masked_lm"))->config();
  json["attention_type"] = "dense";
  bigbird_says([&] { make_model(json); }, "\"attention_type\" is \"dense\"");
  json["attention_type"] = "original_full";
  json["block_size"] = 0;
  bigbird_says([&] { make_model(json); }, "\"block_size\" is 0");
}

}  // namespace
}  // namespace fovea
