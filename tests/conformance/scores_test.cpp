// Every registered score: the tile form gives the outputs and gradients of the differentiable definition, alone, chained, and
// under masks; and so do users' own rules.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "fovea/masks/all.h"
#include "fovea/scores/all.h"
#include "fovea/scores/registry.h"
#include "tests/conformance/tile_loop.h"

namespace fovea {
namespace {

const AttentionShape kScoreShapes[] = {{2, 4, 2, 9, 13, 5, 3}, {1, 2, 2, 7, 7, 4, 6}, {2, 2, 1, 1, 6, 3, 3}};

// Tile loop in f32 against the definition in f64; both round inputs to f32 first. 2e-5: sums of some tens of f32 terms.
void expect_tiles_match(const AttentionShape& s, const Mask& mask, const Score& score, const char* what) {
  SCOPED_TRACE(what);
  at::manual_seed(5);
  const auto q = at::randn({s.B, s.H, s.T, s.D}), k = at::randn({s.B, s.G, s.S, s.D}), v = at::randn({s.B, s.G, s.S, s.E});
  const auto gradient = at::randn({s.B, s.H, s.T, s.E});

  std::vector<Tensor> leaves{q, k, v};
  Score wide_score;
  for (const auto& term : score.terms()) {
    Score::Term wide = *term;
    for (auto& tensor : wide.data) leaves.push_back(tensor = tensor.detach().to(at::kDouble).requires_grad_(true));
    wide_score = wide_score + Score(std::move(wide));
  }
  for (size_t i = 0; i < 3; ++i) leaves[i] = leaves[i].to(at::kDouble).requires_grad_(true);
  const auto out = attention(leaves[0], leaves[1], leaves[2], {.mask = mask, .score = wide_score});
  const auto wanted = torch::autograd::grad({out}, leaves, {gradient.to(at::kDouble)}, {}, false, true);

  const auto tiles = testing::TileLoop(q, k, v, gradient, {.mask = mask, .score = score}).run();
  const auto close = [](const Tensor& have, const Tensor& want, const char* name) {
    ASSERT_TRUE(have.isfinite().all().item<bool>()) << name;
    const auto target = want.defined() ? want : at::zeros_like(have, at::kDouble);
    const double worst = have.numel() ? (have - target).abs().max().item<double>() : 0;
    EXPECT_LT(worst, 2e-5 * (1 + (target.numel() ? target.abs().max().item<double>() : 0))) << name;
  };
  close(tiles.output, out.detach(), "output");
  close(tiles.query, wanted[0], "query gradient");
  close(tiles.key, wanted[1], "key gradient");
  close(tiles.value, wanted[2], "value gradient");
  size_t next = 3;
  for (const auto& term : tiles.learned)
    for (const auto& tensor : term) close(tensor, wanted[next++], "learned gradient");
}

std::vector<Mask> some_masks(const AttentionShape& s) {
  return {Mask(), masks::causal(), ~masks::full(), masks::padding(at::arange(s.B).clamp(0, s.S)) & masks::sliding_window(3, 3)};
}

TEST(Scores, TileFormMatchesDefinition) {
  for (const auto& [name, entry] : scores_registry().entries()) {
    for (const auto& shape : kScoreShapes) {
      const auto samples = entry.samples(shape);
      ASSERT_FALSE(samples.empty()) << name;
      for (const auto& score : samples)
        for (const auto& mask : some_masks(shape)) expect_tiles_match(shape, mask, score, name.c_str());
    }
  }
}

TEST(Scores, TermsChain) {
  for (const auto& shape : kScoreShapes) {
    Score all;
    for (const auto& [name, entry] : scores_registry().entries()) all = all + entry.samples(shape).back();
    expect_tiles_match(shape, masks::causal(), all, "chain");
  }
}

TEST(Scores, UsersRules) {
  for (const auto& s : kScoreShapes) {
    const auto strength = at::arange(1, s.H + 1, at::kFloat) * 0.1, shape = at::full({1}, 0.5);
    const auto decay = scores::add({{"strength", strength}},
                                   [](auto p, int64_t, int64_t h, int64_t q, int64_t k) { return -p[0][h] * std::abs(q - k); });
    const auto curved = scores::add({{"strength", strength}, {"shape", shape}}, [](auto p, int64_t, int64_t h, int64_t q, int64_t k) {
      return p[0][h] * exp(-p[1][0] * double(q - k) * double(q - k)) / (1 + p[0][h] * p[0][h]);
    });
    const auto by_hand = scores::add(
        {{"strength", strength}}, [](auto p, int64_t, int64_t h, int64_t q, int64_t k) { return -p[0][h] * (q - k); },
        [](auto, int64_t, int64_t h, int64_t q, int64_t k, auto emit) { emit(0, h, -double(q - k)); });
    const auto cap = scores::map([](auto score, int64_t, int64_t, int64_t, int64_t) { return 2 * std::tanh(score / 2); },
                                 [](auto score, int64_t, int64_t, int64_t, int64_t) { return 1 - std::pow(std::tanh(score / 2), 2); });
    const auto plain = scores::add([](int64_t, int64_t h, int64_t q, int64_t k) { return 0.1 * double(h + q - k); });
    for (const auto& mask : some_masks(s)) {
      expect_tiles_match(s, mask, decay, "decay");
      expect_tiles_match(s, mask, curved, "curved");
      expect_tiles_match(s, mask, by_hand, "by hand");
      expect_tiles_match(s, mask, cap, "cap");
      expect_tiles_match(s, mask, plain + cap + decay, "chain");
    }
  }
}

TEST(Scores, TheSchemaCarriesThemWhole) {
  for (const auto& [name, entry] : scores_registry().entries()) {
    const auto& s = kScoreShapes[0];
    for (const auto& score : entry.samples(s)) {
      std::vector<Tensor> data;
      const Score chain = score + scores::slopes(at::ones({s.H}));
      const std::string text = chain.encode(data);  // fills data first
      const Score back = Score::decode(text, data);
      const auto q = at::randn({s.B, s.H, s.T, s.D}), k = at::randn({s.B, s.G, s.S, s.D}), v = at::randn({s.B, s.G, s.S, s.E});
      EXPECT_TRUE(at::equal(attention(q, k, v, {.score = chain}), attention(q, k, v, {.score = back}))) << name;
    }
  }
}

// transformers' T5 buckets, computed by hand from the paper's rule (x-transformers #10, candle #899).
TEST(Scores, T5Buckets) {
  const int64_t distances[] = {-200, -20, -8, -1, 0, 1, 8, 20, 200};
  const int64_t two_sided[] = {15, 10, 8, 1, 0, 17, 24, 26, 31}, one_sided[] = {31, 17, 8, 1, 0, 0, 0, 0, 0};
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(t5_bucket(distances[i], true), two_sided[i]) << distances[i];
    EXPECT_EQ(t5_bucket(distances[i], false), one_sided[i]) << distances[i];
  }
}

// Its slots come as f32, which is exact up to 2^24.
TEST(Scores, BlockRepeatsRefuseSlotsThatNoFloatTells) {
  const auto bind = [](int64_t S) {
    const float listed = 0;
    const ArrayView view{&listed, ViewType::kFloat, 4, {1, 1, 32, 1}, {0, 0, 0, 0}};
    return scores_registry().at("block_repeats").bind({int64_t{1} << 20, 3, 0}, {view}, 1, {1, 1, 1, 1, S, 4, 4});
  };
  EXPECT_NE(bind(int64_t{1} << 24), nullptr);
  try {
    bind((int64_t{1} << 24) + 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("scores::block_repeats: 16777217 keys, wanted at most 16777216"), std::string::npos) << error.what();
  }
}

TEST(Scores, NewestQueryHasDistanceZero) {
  const auto table = at::arange(32, at::kFloat).view({32, 1});
  const auto q = at::zeros({1, 1, 1, 2}), k = at::zeros({1, 1, 5, 2}), v = at::zeros({1, 1, 5, 2});
  const auto weights = attention_detailed(q, k, v, {.score = scores::bucket_table(table, false)}).weights;
  EXPECT_TRUE(at::allclose(weights.flatten(), at::softmax(at::tensor({4.f, 3.f, 2.f, 1.f, 0.f}), 0)));
}

}  // namespace
}  // namespace fovea
