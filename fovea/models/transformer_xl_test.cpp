// Transformer-XL by its promises; its numbers are held against the paper's equations in
// tests/parity/test_transformer_xl.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/transformer_xl.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

TransformerXlConfig xl_config(int64_t memory = 6) {
  return {.vocab_size = 13, .width = 12, .layers = 2, .heads = 3, .hidden = 16, .memory = memory};
}

TransformerXl xl_model(const TransformerXlConfig& config) {
  at::manual_seed(2);
  TransformerXl model(config);
  for (auto& item : model->named_parameters())
    if (item.value().dim() > 1) item.value().data().normal_(0, 0.3);
  model->to(torch::kDouble);
  return model;
}

Tensor xl_ids(int64_t rows, int64_t columns) {
  return at::arange(rows * columns).mul(7).add(3).remainder(13).view({rows, columns});
}

Batch xl_batch(const Tensor& ids, bool continues) {
  return {.ids = ids, .labels = ids.roll(1, 1), .tokens = ids.numel(), .continues = continues};
}

TEST(TransformerXlModel, MemoryGoesOnWhereABatchContinues) {
  const torch::NoGradGuard no_grad;
  auto model = xl_model(xl_config());
  const auto first = xl_batch(xl_ids(2, 5), false), second = xl_batch(xl_ids(2, 5).roll(2, 1), true);
  const auto loss = [&](const Batch& batch) { return model->loss(batch).sum.item<double>(); };
  loss(first);
  EXPECT_EQ(model->memory().size(), 2u);
  EXPECT_EQ(model->memory()[0].sizes(), (std::vector<int64_t>{2, 5, 12}));
  const double with = loss(second);
  EXPECT_EQ(model->memory()[1].size(1), 6);
  Batch alone = second;
  alone.continues = false;
  const double without = loss(alone);
  EXPECT_GT(std::abs(with - without), 1e-3);

  // Validation in between leaves the memory of training as it was.
  loss(first);
  const auto before = model->memory();
  model->eval();
  EXPECT_EQ(loss(alone), without);
  const double after_alone = loss(second);  // it has a memory of its own, which goes on like that of training
  EXPECT_GT(std::abs(after_alone - without), 1e-3);
  EXPECT_GT(std::abs(after_alone - with), 1e-3);
  loss(first);
  EXPECT_EQ(loss(second), with);
  model->train();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(model->memory()[i], before[i]));
  EXPECT_EQ(loss(second), with);

  // Memory put back is memory kept.
  model->set_memory(before);
  EXPECT_EQ(loss(second), with);
  Batch narrow = xl_batch(xl_ids(1, 5), true);
  EXPECT_NE(error_of([&] { loss(narrow); }).find("the batch has 1 rows, the one that it continues had 2"),
            std::string::npos);
  narrow.documents = at::zeros({1, 5}, at::kLong);
  EXPECT_NE(error_of([&] { loss(narrow); }).find("packed texts"), std::string::npos);
}

TEST(TransformerXlModel, CachedStepsEqualTheWholeWhileItFitsTheMemory) {
  const torch::NoGradGuard no_grad;
  auto model = xl_model(xl_config(20));
  model->eval();
  const auto ids = xl_ids(2, 14), whole = model->forward({.ids = ids});
  DecoderState state = model->begin();
  EXPECT_TRUE(at::allclose(model->step(ids.slice(1, 0, 6), state), whole.slice(1, 0, 6), 1e-9, 1e-9));
  for (int64_t t = 6; t < 14; ++t)
    EXPECT_TRUE(at::allclose(model->step(ids.slice(1, t, t + 1), state), whole.slice(1, t, t + 1), 1e-9, 1e-9)) << t;
  state.crop(9);
  state.reorder(at::tensor({1, 0}, at::kLong));
  EXPECT_TRUE(at::allclose(model->step(ids.flip(0).slice(1, 9), state, true), whole.flip(0).slice(1, 13), 1e-9, 1e-9));
}

TEST(TransformerXlModel, TheCacheStaysAsLongAsTheMemory) {
  const torch::NoGradGuard no_grad;
  auto model = xl_model(xl_config(4));
  model->eval();
  DecoderState state = model->begin();
  state.start = at::tensor({0, 3}, at::kLong);
  model->step(xl_ids(2, 6), state);
  EXPECT_EQ(state.length(), 4);
  EXPECT_TRUE(at::equal(state.start, at::tensor({0, 1}, at::kLong)));
  for (int64_t t = 0; t < 5; ++t) model->step(xl_ids(2, 1), state);
  EXPECT_EQ(state.length(), 4);
  EXPECT_TRUE(at::equal(state.start, at::tensor({0, 0}, at::kLong)));
}

TEST(TransformerXlModel, ItsConfigurationMakesItAgain) {
  TransformerXlConfig config = xl_config();
  config.pre_norm = true;
  config.tied = false;
  config.reach = 3;
  config.dropout = 0.25;
  for (const auto& c : {xl_config(), config}) {
    const auto json = TransformerXl(c)->config();
    EXPECT_EQ(make_model(json)->config(), json);
    EXPECT_EQ(make_model(json)->type(), "transformer_xl");
  }
  const auto says = [](TransformerXlConfig c, const char* part) {
    const auto message = error_of([&] { TransformerXl{c}; });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  config.memory = -1;
  says(config, "memory is -1, wanted at least 0");
  config = xl_config();
  config.heads = 5;
  says(config, "width 12 does not divide into 5 heads");
  config.heads = 3;
  config.reach = -2;
  says(config, "reach is -2");
}

}  // namespace
}  // namespace fovea
