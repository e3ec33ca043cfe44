// GPT-2 by its promises; its numbers are held against transformers in tests/parity/test_gpt2.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/gradient_check.h"

namespace fovea {
namespace {

Gpt2 wide_gpt2() {
  at::manual_seed(2);
  Gpt2 model(Gpt2Config{.vocab_size = 13, .positions = 16, .width = 12, .layers = 2, .heads = 3});
  model->to(torch::kDouble);
  model->eval();
  return model;
}

Tensor some_ids(int64_t rows, int64_t columns) {
  return at::arange(rows * columns).mul(7).add(3).remainder(13).view({rows, columns});
}
bool near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

TEST(Gpt2Model, CachedStepsEqualTheWholeAlsoAfterACrop) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_gpt2();
  const auto ids = some_ids(2, 9);
  const auto whole = model->forward({.ids = ids});
  DecoderState state = model->begin();
  EXPECT_TRUE(near(model->step(ids.slice(1, 0, 4), state), whole.slice(1, 0, 4)));
  for (int64_t t = 4; t < 9; ++t)
    EXPECT_TRUE(near(model->step(ids.slice(1, t, t + 1), state), whole.slice(1, t, t + 1)));
  state.crop(6);
  EXPECT_TRUE(near(model->step(ids.slice(1, 6), state, /*last_only=*/true), whole.slice(1, 8)));
}

TEST(Gpt2Model, ARowDoesNotDependOnItsMatesNorOnTheSideOfItsPadding) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_gpt2();
  const auto ids = some_ids(3, 8);
  const auto alone = model->forward({.ids = ids.slice(0, 1, 2).slice(1, 0, 5)});
  const auto right = model->forward({.ids = ids, .lengths = at::tensor({8, 5, 1}, at::kLong)});
  EXPECT_TRUE(near(right[1].slice(0, 0, 5), alone[0]));
  DecoderState state = model->begin();
  state.start = at::tensor({0, 3, 5}, at::kLong);
  const auto shifted = ids.index_put({at::tensor({1}, at::kLong)}, at::roll(ids[1], 3));
  const auto left = at::cat({model->step(shifted.slice(1, 0, 6), state), model->step(shifted.slice(1, 6, 7), state),
                             model->step(shifted.slice(1, 7), state)},
                            1);
  EXPECT_TRUE(near(left[1].slice(0, 3), alone[0]));
}

TEST(Gpt2Model, PackedTextsEqualSingleOnes) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_gpt2();
  const auto ids = some_ids(1, 9);
  const auto packed = model->forward({.ids = ids,
                                      .lengths = at::tensor({8}, at::kLong),
                                      .documents = at::tensor({0, 0, 0, 1, 1, 1, 1, 2, -1}, at::kLong).unsqueeze(0),
                                      .positions = at::tensor({0, 1, 2, 0, 1, 2, 3, 0, 0}, at::kLong).unsqueeze(0)});
  EXPECT_TRUE(near(packed.slice(1, 0, 3), model->forward({.ids = ids.slice(1, 0, 3)})));
  EXPECT_TRUE(near(packed.slice(1, 3, 7), model->forward({.ids = ids.slice(1, 3, 7)})));
  EXPECT_TRUE(near(packed.slice(1, 7, 8), model->forward({.ids = ids.slice(1, 7, 8)})));
  EXPECT_TRUE(packed.isfinite().all().item<bool>());  // padding included
}

// Radford et al. 2019, section 2.3: deviation 0.02, on residual paths divided by √(2 · layers).
TEST(Gpt2Model, StartsWithThePapersWeights) {
  at::manual_seed(4);
  const Gpt2 model(Gpt2Config{.vocab_size = 200, .positions = 64, .width = 64, .layers = 4, .heads = 4});
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    const bool norm = name.find("norm") != name.npos;
    const bool residual = name.ends_with("attention.output.weight") || name.ends_with("feed_forward.down.weight");
    const double deviation = item.value().std().item<double>(), mean = item.value().mean().item<double>();
    if (item.value().dim() == 1) {
      EXPECT_EQ(deviation, 0) << name;
      EXPECT_EQ(mean, norm && name.ends_with("weight") ? 1 : 0) << name;
    } else {
      EXPECT_NEAR(deviation, residual ? 0.02 / std::sqrt(8.0) : 0.02, 0.001) << name;
      EXPECT_NEAR(mean, 0, 0.0015) << name;
    }
  }
}

TEST(Gpt2Model, ThreadsShareIt) {
  const Gpt2 model = wide_gpt2();
  const GenerativeModelImpl& shared = *model;
  const auto ids = some_ids(1, 12);
  const auto run = [&] {
    const torch::NoGradGuard no_grad;
    DecoderState state = shared.begin();
    std::vector<Tensor> out;
    for (int64_t t = 0; t < 12; ++t) out.push_back(shared.step(ids.slice(1, t, t + 1), state));
    return at::cat(out, 1);
  };
  const auto wanted = run();
  std::vector<Tensor> got(3);
  std::vector<std::thread> threads;
  for (auto& result : got) threads.emplace_back([&] { result = run(); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : got) EXPECT_TRUE(near(result, wanted));
}

TEST(Gpt2Model, SizesThatOverflowAreRefused) {
  EXPECT_THROW(Gpt2(Gpt2Config{.vocab_size = 8, .positions = 4, .width = INT64_MAX, .layers = 1, .heads = 1}), Error);
}

TEST(Gpt2Model, EmptyBatchesAndWrongCalls) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_gpt2();
  EXPECT_EQ(model->forward({.ids = at::zeros({0, 4}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 4, 13}));
  EXPECT_EQ(model->forward({.ids = at::zeros({2, 0}, at::kLong)}).sizes(), (std::vector<int64_t>{2, 0, 13}));
  const auto says = [&](const Batch& batch, const char* part) {
    const auto message = error_of([&] { model->forward(batch); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says({.ids = at::zeros({1, 17}, at::kLong)}, "17 tokens does not fit the 16 positions");
  says({.ids = at::full({1, 2}, 13, at::kLong)}, "token id 13");
  says({.ids = at::zeros({1, 2})}, "ids are Float");
  says({.ids = at::zeros({3}, at::kLong)}, "wanted [B, T, C]");
  says({.ids = at::zeros({2, 3}, at::kLong), .lengths = at::tensor({3, 4}, at::kLong)}, "sequence 1 has 4");
  says({.ids = at::zeros({2, 3}, at::kLong), .lengths = at::tensor({3}, at::kLong)}, "wanted integers [2]");
  EXPECT_NE(error_of([&] { model->begin(at::zeros({1, 2}, at::kLong)); }).find("no encoder"), std::string::npos);
}

}  // namespace
}  // namespace fovea
