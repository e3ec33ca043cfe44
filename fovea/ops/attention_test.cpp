// Attention keeps its promises: each test names the one it checks.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fovea/base/check.h"
#include "fovea/masks/all.h"
#include "fovea/scores/all.h"

namespace fovea {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Inputs {
  Tensor q, k, v;
};

Inputs random_inputs(int64_t B, int64_t H, int64_t G, int64_t T, int64_t S, int64_t D, int64_t E, at::ScalarType type = at::kDouble, int64_t seed = 1) {
  at::manual_seed(uint64_t(seed));
  const auto make = [&](at::IntArrayRef shape) { return at::randn(shape, at::kDouble).to(type).requires_grad_(true); };
  return {make({B, H, T, D}), make({B, G, S, D}), make({B, G, S, E})};
}

std::vector<Tensor> gradients(const Tensor& out, const std::vector<Tensor>& leaves) {
  at::manual_seed(99);
  const auto weight = at::randn(out.sizes(), at::kDouble).to(out.scalar_type());
  return torch::autograd::grad({(out * weight).sum()}, leaves);
}

// The definition written out number by number.
Tensor by_hand(const Inputs& x, double scale, const std::function<bool(int64_t, int64_t, int64_t, int64_t)>& visible,
               const std::function<double(double, int64_t, int64_t, int64_t)>& score) {
  const auto q = x.q.accessor<double, 4>(), k = x.k.accessor<double, 4>(), v = x.v.accessor<double, 4>();
  auto out = at::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, at::kDouble);
  auto o = out.accessor<double, 4>();
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < q.size(2); ++i) {
        const int64_t g = h * k.size(1) / q.size(1);
        std::vector<double> weight(size_t(k.size(2)), 0.0);
        double sum = 0;
        for (int64_t j = 0; j < k.size(2); ++j) {
          if (!visible(b, h, i, j)) continue;
          double dot = 0;
          for (int64_t d = 0; d < q.size(3); ++d) dot += q[b][h][i][d] * k[b][g][j][d];
          sum += weight[size_t(j)] = std::exp(score(scale * dot, h, i, j));
        }
        for (int64_t j = 0; sum > 0 && j < k.size(2); ++j)
          for (int64_t e = 0; e < v.size(3); ++e) o[b][h][i][e] += weight[size_t(j)] / sum * v[b][g][j][e];
      }
  return out;
}

void expect_close(const Tensor& have, const Tensor& want, double tolerance = 1e-12) {
  ASSERT_EQ(have.sizes(), want.sizes());
  EXPECT_TRUE(at::allclose(have.to(at::kDouble), want.to(at::kDouble), tolerance, tolerance)) << have << "\nwanted\n" << want;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kArgument);
    return error.what();
  }
  return "no error";
}

#define EXPECT_SAYS(call, text)                                                \
  do {                                                                         \
    const std::string said = error_of([&] { call; });                          \
    EXPECT_NE(said.find(text), std::string::npos) << said;                     \
  } while (false)

TEST(Attention, OrderOfOperations) {
  const auto x = random_inputs(2, 4, 2, 5, 7, 3, 6);
  const auto slopes = at::tensor({0.5, 0.25, 0.125, 1.0}, at::kDouble);
  const auto have = attention(x.q, x.k, x.v, {.mask = masks::causal(), .score = scores::slopes(slopes), .scale = 0.7, .soft_cap = 1.5});
  const auto want = by_hand(
      x, 0.7, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 2; },
      [&](double s, int64_t h, int64_t i, int64_t j) { return 1.5 * std::tanh(s / 1.5) - slopes[h].item<double>() * std::abs(double(i + 2 - j)); });
  expect_close(have, want);
}

TEST(Attention, DefaultScaleIsOneOverRootOfWidth) {
  const auto x = random_inputs(1, 2, 2, 3, 4, 5, 2);
  expect_close(attention(x.q, x.k, x.v), attention(x.q, x.k, x.v, {.scale = 1 / std::sqrt(5.0)}), 0);
}

TEST(Attention, EqualsPyTorch) {
  const auto x = random_inputs(2, 4, 4, 6, 9, 8, 8, at::kFloat);
  const auto allowed = at::randn({2, 1, 6, 9}).gt(-0.5);
  allowed.select(-1, 0).fill_(true);
  expect_close(attention(x.q, x.k, x.v, {.mask = masks::allow(allowed)}), at::scaled_dot_product_attention(x.q, x.k, x.v, allowed), 1e-5);
  const auto bias = at::randn({4, 6, 9});
  expect_close(attention(x.q, x.k, x.v, {.score = scores::dense(bias)}), at::scaled_dot_product_attention(x.q, x.k, x.v, bias), 1e-5);
}

TEST(Attention, GradientsAreTheNumericalOnes) {
  auto x = random_inputs(1, 4, 2, 3, 4, 2, 3);
  const auto slopes = at::tensor({0.5, 0.25, 0.1, 0.3}, at::kDouble).requires_grad_(true);
  const auto bias = at::randn({4, 1, 4}, at::kDouble).requires_grad_(true);
  const auto loss = [&] {
    at::manual_seed(99);
    const AttentionOptions options{.mask = masks::sliding_window(2, 1), .score = scores::slopes(slopes) + scores::dense(bias), .soft_cap = 2, .dropout = 0.3, .dropout_seed = 4};
    const auto out = attention(x.q, x.k, x.v, options);
    return (out * at::randn(out.sizes(), at::kDouble)).sum();
  };
  const std::vector<Tensor> leaves{x.q, x.k, x.v, slopes, bias};
  const auto have = torch::autograd::grad({loss()}, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto flat = leaves[i].detach().view(-1);
    for (int64_t n = 0; n < flat.numel(); ++n) {
      const double value = flat[n].item<double>();
      flat[n] = value + 1e-6;
      const double up = loss().item<double>();
      flat[n] = value - 1e-6;
      const double down = loss().item<double>();
      flat[n] = value;
      EXPECT_NEAR(have[i].reshape(-1)[n].item<double>(), (up - down) / 2e-6, 1e-7) << "leaf " << i << " element " << n;
    }
  }
}

TEST(Attention, SecondDerivatives) {
  auto x = random_inputs(1, 2, 1, 3, 4, 2, 2);
  const auto penalty = [&] {
    const auto out = attention(x.q, x.k, x.v, {.mask = masks::causal(), .soft_cap = 3, .path = AttentionPath::reference});
    const auto first = torch::autograd::grad({out.pow(2).sum()}, {x.q, x.k}, {}, {}, /*create_graph=*/true);
    return first[0].pow(2).sum() + first[1].pow(3).sum();
  };
  const auto have = torch::autograd::grad({penalty()}, {x.q})[0];
  auto flat = x.q.detach().view(-1);
  for (int64_t n = 0; n < flat.numel(); ++n) {
    const double value = flat[n].item<double>();
    flat[n] = value + 1e-6;
    const double up = penalty().item<double>();
    flat[n] = value - 1e-6;
    const double down = penalty().item<double>();
    flat[n] = value;
    EXPECT_NEAR(have.reshape(-1)[n].item<double>(), (up - down) / 2e-6, 1e-6);
  }
}

TEST(Attention, UsersRulesHaveNoSecondDerivativeAndSaySo) {
  auto x = random_inputs(1, 1, 1, 2, 2, 2, 2);
  const auto rule = scores::add([](int64_t, int64_t, int64_t q, int64_t k) { return double(q - k); });
  const auto out = attention(x.q, x.k, x.v, {.score = rule});
  EXPECT_SAYS(torch::autograd::grad({out.sum()}, {x.q}, {}, {}, true), "second derivatives through a user's score rule");
}

// pytorch #144858: one new query against a cache sees every key, not the first only.
TEST(Attention, CausalIsLowerRight) {
  for (int64_t T : {1, 3, 8}) {
    const auto x = random_inputs(1, 1, 1, T, 8, 4, 4);
    const auto seen = [&](int64_t, int64_t, int64_t i, int64_t j) { return j <= 8 - T + i; };
    const auto same = [](double s, int64_t, int64_t, int64_t) { return s; };
    expect_close(attention(x.q, x.k, x.v, {.mask = masks::causal()}), by_hand(x, 0.5, seen, same));
    const auto first = [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i; };
    expect_close(attention(x.q, x.k, x.v, {.mask = masks::causal(masks::Align::top_left)}), by_hand(x, 0.5, first, same));
  }
}

TEST(Attention, RaggedCausalAlignsEachSequence) {
  const auto x = random_inputs(2, 1, 1, 3, 6, 4, 4);
  const auto lengths = at::tensor({2, 3}, at::kLong), keys = at::tensor({4, 6}, at::kLong);
  const auto have = attention(x.q, x.k, x.v, {.mask = masks::causal(lengths, keys) & masks::padding(keys)});
  for (int64_t b : {0, 1}) {
    const int64_t T = lengths[b].item<int64_t>(), S = keys[b].item<int64_t>();
    const auto alone = attention(x.q.narrow(0, b, 1).narrow(2, 0, T), x.k.narrow(0, b, 1).narrow(2, 0, S), x.v.narrow(0, b, 1).narrow(2, 0, S),
                                 {.mask = masks::causal()});
    expect_close(have.narrow(0, b, 1).narrow(2, 0, T), alone);
  }
}

// pytorch #103749: row 5 allows no key.
TEST(Attention, ARowThatSeesNothing) {
  for (auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto x = random_inputs(1, 2, 2, 6, 10, 8, 8, type);
    const auto allowed = at::ones({6, 10}, at::kBool).tril();
    allowed[5].fill_(false);
    const auto out = attention_detailed(x.q, x.k, x.v, {.mask = masks::allow(allowed)});
    EXPECT_TRUE(out.output.select(2, 5).eq(0).all().item<bool>());
    EXPECT_TRUE(out.weights.select(2, 5).eq(0).all().item<bool>());
    EXPECT_TRUE(out.log_sum_exp.select(2, 5).eq(-kInfinity).all().item<bool>());
    const auto unmasked = attention(x.q.narrow(2, 0, 5), x.k, x.v, {.mask = masks::causal(masks::Align::top_left), .path = AttentionPath::reference});
    // Products of five and of six rows may round differently.
    expect_close(out.output.narrow(2, 0, 5), unmasked, type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2);
    const auto lse = out.log_sum_exp.masked_fill(out.log_sum_exp.eq(-kInfinity), 0).sum();
    for (const auto& g : torch::autograd::grad({out.output.sum().to(at::kDouble) + lse + out.weights.pow(2).sum()}, {x.q, x.k, x.v}, {}, /*retain_graph=*/true)) {
      EXPECT_TRUE(g.isfinite().all().item<bool>());
    }
    EXPECT_TRUE(gradients(out.output, {x.q})[0].select(2, 5).eq(0).all().item<bool>());
  }
}

TEST(Attention, AHiddenKeyDoesNotExist) {
  for (double poison : {double(NAN), kInfinity, -kInfinity}) {
    for (auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      auto clean = random_inputs(2, 4, 2, 5, 6, 4, 3, type), dirty = random_inputs(2, 4, 2, 5, 6, 4, 3, type);
      {
        const at::NoGradGuard guard;
        dirty.k[1][1][4].fill_(poison), dirty.v[1][1][4].fill_(poison);  // seen by rows 3 and 4 only
        dirty.k[0][0][5].fill_(poison), dirty.v[0][1][5].fill_(poison);  // seen by row 4 only
        dirty.k[1][0][5].fill_(poison), dirty.v[1][0][5].fill_(poison);  // padding: seen by none
      }
      const auto mask = masks::causal() & masks::padding(at::tensor({6, 5}, at::kLong));
      const auto have = attention(dirty.q, dirty.k, dirty.v, {.mask = mask}), want = attention(clean.q, clean.k, clean.v, {.mask = mask});
      const auto touched = at::zeros({2, 4, 5}, at::kBool);
      for (int64_t q : {3, 4}) touched[1].slice(0, 2, 4).select(1, q).fill_(true);
      touched[0].select(1, 4).fill_(true);
      const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-6 : 2e-2;
      const auto rows = touched.unsqueeze(-1);
      expect_close(have.masked_fill(rows, 0), want.masked_fill(rows, 0), tolerance);
      // A loss over untouched rows: their gradients are those of the clean input.
      const auto loss = [&](const Tensor& out) { return out.masked_fill(rows, 0).pow(2).sum(); };
      const auto have_g = torch::autograd::grad({loss(have)}, {dirty.q, dirty.k, dirty.v});
      const auto want_g = torch::autograd::grad({loss(want)}, {clean.q, clean.k, clean.v});
      const auto query_rows = touched.unsqueeze(-1);
      expect_close(have_g[0].masked_fill(query_rows, 0), want_g[0].masked_fill(query_rows, 0), tolerance);
    }
  }
}

TEST(Attention, AVisibleNaNIsSeen) {
  auto x = random_inputs(1, 1, 1, 4, 4, 3, 3);
  {
    const at::NoGradGuard guard;
    x.k[0][0][2].fill_(NAN);
  }
  const auto out = attention(x.q, x.k, x.v, {.mask = masks::causal()});
  EXPECT_TRUE(out.slice(2, 0, 2).isfinite().all().item<bool>());
  EXPECT_TRUE(out.slice(2, 2).isnan().all().item<bool>());
}

TEST(Attention, MinusInfinityHidesLikeAMask) {
  for (auto type : {at::kDouble, at::kBFloat16}) {
    auto x = random_inputs(1, 2, 2, 4, 5, 3, 3, type);
    auto bias = at::zeros({4, 5}, at::kDouble);
    bias[1].fill_(-kInfinity);
    bias.select(1, 3).fill_(-kInfinity);
    const auto visible = bias.eq(0);
    const auto as_bias = attention(x.q, x.k, x.v, {.mask = masks::causal(), .score = scores::dense(bias.to(type))});  // hidden twice in places
    const auto as_mask = attention(x.q, x.k, x.v, {.mask = masks::causal() & masks::allow(visible)});
    EXPECT_TRUE(at::equal(as_bias, as_mask));
    EXPECT_TRUE(as_bias.isfinite().all().item<bool>());
    const auto a = gradients(as_bias, {x.q, x.k, x.v}), b = gradients(as_mask, {x.q, x.k, x.v});
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(a[i], b[i]));
    {
      const at::NoGradGuard guard;
      x.v.select(2, 3).fill_(NAN), x.k.select(2, 3).fill_(kInfinity);
    }
    EXPECT_TRUE(attention(x.q, x.k, x.v, {.score = scores::dense(bias.to(type))}).isfinite().all().item<bool>());
  }
}

TEST(Attention, DropoutDependsOnPositionsOnly) {
  const auto x = random_inputs(2, 4, 4, 20, 40, 8, 8);
  const AttentionOptions options{.dropout = 0.25, .dropout_seed = 12};
  const auto whole = attention(x.q, x.k, x.v, options);
  EXPECT_TRUE(at::equal(whole, attention(x.q, x.k, x.v, options)));
  const auto part = attention(x.q.narrow(2, 0, 7).narrow(1, 0, 2), x.k.narrow(1, 0, 2), x.v.narrow(1, 0, 2), options);
  expect_close(part, whole.narrow(1, 0, 2).narrow(2, 0, 7));
  EXPECT_FALSE(at::equal(whole, attention(x.q, x.k, x.v, {.dropout = 0.25, .dropout_seed = 13})));
}

TEST(Attention, DropoutKeepsTheRightShareAndScales) {
  const auto q = at::zeros({4, 4, 64, 8}), k = at::zeros({4, 4, 64, 8}), v = at::eye(64).expand({4, 4, 64, 64});
  for (double p : {0.1, 0.5, 0.9}) {
    const auto out = attention(q, k, v, {.dropout = p, .dropout_seed = 3}) * 64;  // kept: 1/(1 − p), dropped: 0
    const auto kept = out.gt(0);
    EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 1 - p, 0.006) << p;  // 65,536 draws: 3 deviations are 0.0059
    EXPECT_NEAR(out.masked_select(kept).max().item<double>(), 1 / (1 - p), 1e-4);
    // Neighbouring keys share a random word; they must not share its fate.
    const auto a = kept.slice(3, 0, 63).to(at::kDouble), b = kept.slice(3, 1, 64).to(at::kDouble);
    EXPECT_NEAR((a * b).mean().item<double>(), (1 - p) * (1 - p), 0.01) << p;
  }
}

TEST(Attention, DropoutOfOneGivesZeros) {
  const auto x = random_inputs(1, 2, 2, 3, 4, 2, 2);
  const auto out = attention(x.q, x.k, x.v, {.dropout = 1});
  EXPECT_TRUE(out.eq(0).all().item<bool>());
  for (const auto& g : gradients(out, {x.q, x.k, x.v})) EXPECT_TRUE(g.eq(0).all().item<bool>());
}

TEST(Attention, ManualSeedReproducesDropout) {
  const auto x = random_inputs(1, 2, 2, 8, 8, 2, 2);
  at::manual_seed(5);
  const auto first = attention(x.q, x.k, x.v, {.dropout = 0.5}), second = attention(x.q, x.k, x.v, {.dropout = 0.5});
  at::manual_seed(5);
  EXPECT_TRUE(at::equal(first, attention(x.q, x.k, x.v, {.dropout = 0.5})));
  EXPECT_FALSE(at::equal(first, second));
}

TEST(Attention, GroupedHeads) {
  const auto x = random_inputs(2, 6, 2, 4, 5, 3, 4);
  const auto wide_k = x.k.repeat_interleave(3, 1).detach().requires_grad_(true), wide_v = x.v.repeat_interleave(3, 1).detach().requires_grad_(true);
  const auto have = attention(x.q, x.k, x.v), want = attention(x.q, wide_k, wide_v);
  expect_close(have, want);
  const auto g = gradients(have, {x.k, x.v}), w = gradients(want, {wide_k, wide_v});
  expect_close(g[0], w[0].view({2, 2, 3, 5, 3}).sum(2));
  expect_close(g[1], w[1].view({2, 2, 3, 5, 4}).sum(2));
}

TEST(Attention, HalfTypesAccumulateWide) {
  for (auto type : {at::kBFloat16, at::kHalf}) {
    const auto x = random_inputs(1, 2, 2, 33, 65, 16, 16, type);
    const auto out = attention(x.q, x.k, x.v, {.mask = masks::causal()});
    EXPECT_EQ(out.scalar_type(), type);
    const auto wide = attention(x.q.to(at::kDouble), x.k.to(at::kDouble), x.v.to(at::kDouble), {.mask = masks::causal()});
    // Only the rounding of the result: half a unit in the last place of a number near 4.
    EXPECT_LT((out.to(at::kDouble) - wide).abs().max().item<double>(), type == at::kBFloat16 ? 8e-3 : 1e-3);
    EXPECT_EQ(gradients(out, {x.q})[0].scalar_type(), type);
  }
}

TEST(Attention, NotLessExactThanPyTorch) {
  for (auto type : {at::kFloat, at::kBFloat16}) {
    const auto x = random_inputs(2, 4, 4, 64, 96, 32, 32, type), wide = random_inputs(2, 4, 4, 64, 96, 32, 32, type);
    const std::vector<Tensor> leaves{wide.q.detach().to(at::kDouble).requires_grad_(true), wide.k.detach().to(at::kDouble).requires_grad_(true),
                                     wide.v.detach().to(at::kDouble).requires_grad_(true)};
    const auto truth = attention(leaves[0], leaves[1], leaves[2]);
    const auto ours = attention(x.q, x.k, x.v), theirs = at::scaled_dot_product_attention(x.q, x.k, x.v);
    const auto error = [](const Tensor& a, const Tensor& b) { return (a.to(at::kDouble) - b).abs().max().item<double>(); };
    EXPECT_LE(error(ours, truth), 1.5 * error(theirs, truth));
    at::manual_seed(3);
    const auto weight = at::randn(truth.sizes(), at::kDouble).to(type);
    const auto true_g = torch::autograd::grad({truth}, leaves, {weight.to(at::kDouble)});
    const auto our_g = torch::autograd::grad({ours}, {x.q, x.k, x.v}, {weight});
    const auto their_g = torch::autograd::grad({theirs}, {x.q, x.k, x.v}, {weight});
    for (size_t i = 0; i < 3; ++i) EXPECT_LE(error(our_g[i], true_g[i]), 1.5 * error(their_g[i], true_g[i])) << i;
  }
}

// pytorch #187506, #112577: strides are strides.
TEST(Attention, AnyStrides) {
  at::manual_seed(2);
  const auto make = [] { return at::randn({1, 2, 16, 8}, at::kDouble).transpose(-1, -2); };  // [1, 2, 8, 16], innermost stride 8
  const auto q = make(), k = make(), v = make();
  const auto want = attention(q.contiguous(), k.contiguous(), v.contiguous());
  expect_close(attention(q, k, v), want);
  const auto wide = at::randn({8, 16}).gt(-1);
  const auto strided = wide.as_strided({8, 8}, {16, 2}), flat = wide.select(1, 0).unsqueeze(1).expand({8, 8});
  for (const auto& mask : {strided, flat})
    EXPECT_TRUE(at::equal(attention(q, k, v, {.mask = masks::allow(mask)}), attention(q, k, v, {.mask = masks::allow(mask.contiguous())})));
  const auto one = at::randn({1, 1, 1, 16}, at::kDouble);
  expect_close(attention(q, one.expand({1, 2, 8, 16}), v), attention(q, one.expand({1, 2, 8, 16}).contiguous(), v));
}

// line/lighthouse #77: per-sample masks stay with their sample.
TEST(Attention, MasksStayWithTheirSample) {
  auto x = random_inputs(2, 2, 2, 5, 5, 4, 4);
  const auto lengths = at::tensor({3, 5}, at::kLong);
  const auto before = attention(x.q, x.k, x.v, {.mask = masks::padding(lengths)}).detach();
  const auto alone = attention(x.q.narrow(0, 0, 1), x.k.narrow(0, 0, 1).narrow(2, 0, 3), x.v.narrow(0, 0, 1).narrow(2, 0, 3));
  expect_close(before.narrow(0, 0, 1), alone);
  {
    const at::NoGradGuard guard;
    x.k[1].mul_(3), x.v[1].add_(1);
  }
  EXPECT_TRUE(at::equal(attention(x.q, x.k, x.v, {.mask = masks::padding(lengths)})[0], before[0]));
}

TEST(Attention, EmptySizes) {
  for (const auto& [B, T, S] : {std::tuple{0, 3, 4}, {2, 0, 4}, {2, 3, 0}, {0, 0, 0}}) {
    const auto x = random_inputs(B, 4, 2, T, S, 5, 6);
    const auto out = attention_detailed(x.q, x.k, x.v, {.mask = masks::causal(), .score = scores::slopes(at::ones({4})), .dropout = 0.1});
    EXPECT_EQ(out.output.sizes(), (std::vector<int64_t>{B, 4, T, 6}));
    EXPECT_EQ(out.weights.sizes(), (std::vector<int64_t>{B, 4, T, S}));
    EXPECT_TRUE(out.output.eq(0).all().item<bool>());
    EXPECT_TRUE(out.log_sum_exp.eq(-kInfinity).all().item<bool>());
    for (const auto& g : torch::autograd::grad({out.output.sum()}, {x.q, x.k, x.v}, {}, {}, false, true))
      EXPECT_TRUE(!g.defined() || g.eq(0).all().item<bool>());
  }
}

// flash-attention #1537: query lengths 1, 0, 1 and key lengths 3, 0, 5.
TEST(Attention, PackedBatches) {
  at::manual_seed(8);
  const auto q = at::randn({2, 9, 64}, at::kDouble).requires_grad_(true);
  const auto k = at::randn({8, 3, 64}, at::kDouble).requires_grad_(true), v = at::randn({8, 3, 64}, at::kDouble).requires_grad_(true);
  const auto q_offsets = at::tensor({0, 1, 1, 2}, at::kInt), k_offsets = at::tensor({0, 3, 3, 8}, at::kInt);
  const auto out = attention_packed(q, k, v, q_offsets, k_offsets, {.mask = masks::causal()});
  EXPECT_EQ(out.sizes(), (std::vector<int64_t>{2, 9, 64}));
  const auto row = [&](int64_t i, int64_t begin, int64_t end) {
    const auto heads = [](const Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
    return attention(heads(q.narrow(0, i, 1)), heads(k.slice(0, begin, end)), heads(v.slice(0, begin, end)))[0].transpose(0, 1);
  };
  expect_close(out, at::cat({row(0, 0, 3), row(1, 3, 8)}));
  EXPECT_TRUE(gradients(out, {k})[0].isfinite().all().item<bool>());
  EXPECT_SAYS(attention_packed(q, k, v, at::tensor({0, 2, 1, 2}), k_offsets), "query_offsets[2] is 1; offsets start at 0 and never fall");
  EXPECT_SAYS(attention_packed(q, k, v, at::tensor({0, 1, 1, 3}), k_offsets), "query_offsets ends at 3; wanted the number of tokens, 2");
  EXPECT_SAYS(attention_packed(q, k, v, at::tensor({0, 2}), k_offsets), "query_offsets has 1 sequences, key_offsets has 3");
}

TEST(Attention, PackedDropoutIsThatOfTheSequence) {
  at::manual_seed(8);
  const auto q = at::randn({10, 2, 4}), k = at::randn({10, 2, 4}), v = at::randn({10, 2, 4});
  const AttentionOptions options{.dropout = 0.5, .dropout_seed = 7};
  const auto heads = [](const Tensor& x) { return x.view({2, 5, 2, 4}).transpose(1, 2); };
  const auto batch = attention(heads(q), heads(k), heads(v), options).transpose(1, 2).reshape({10, 2, 4});
  const auto offsets = at::tensor({0, 5, 10});
  EXPECT_TRUE(at::allclose(attention_packed(q, k, v, offsets, offsets, options), batch, 1e-5, 1e-6));
}

// pytorch #160064: one head hidden as a whole; asking for weights changes nothing.
TEST(Attention, WeightsOnRequestChangeNothing) {
  const auto x = random_inputs(1, 3, 3, 5, 5, 1, 1);
  const auto allowed = at::ones({3, 5, 5}, at::kBool);
  allowed[1].fill_(false);
  const auto plain = attention(x.q, x.k, x.v, {.mask = masks::allow(allowed)});
  const auto detailed = attention_detailed(x.q, x.k, x.v, {.mask = masks::allow(allowed)});
  EXPECT_TRUE(at::equal(plain, detailed.output));
  EXPECT_TRUE(detailed.weights.select(1, 1).eq(0).all().item<bool>());
  EXPECT_TRUE(plain.isfinite().all().item<bool>());
}

// pytorch #80494: weights above the diagonal are exactly zero, for either polarity.
TEST(Attention, MaskedWeightsAreExactlyZero) {
  const auto x = random_inputs(1, 1, 1, 3, 3, 4, 4);
  const auto upper = at::ones({3, 3}, at::kBool).triu(1);
  auto bias = at::zeros({3, 3}, at::kDouble).masked_fill(upper, -kInfinity);
  const auto a = attention_detailed(x.q, x.k, x.v, {.mask = masks::block(upper)}).weights;
  const auto b = attention_detailed(x.q, x.k, x.v, {.score = scores::dense(bias)}).weights;
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_TRUE(a[0][0].masked_select(upper).eq(0).all().item<bool>());
  EXPECT_TRUE(at::allclose(a.sum(-1), at::ones({1, 1, 3}, at::kDouble)));
}

TEST(Attention, WeightsAndLogSumExpAreDifferentiable) {
  const auto x = random_inputs(1, 2, 2, 3, 4, 3, 3);
  const auto out = attention_detailed(x.q, x.k, x.v, {.mask = masks::causal()});
  const auto scores = (at::matmul(x.q, x.k.transpose(-1, -2)) / std::sqrt(3.0)).masked_fill(at::ones({3, 4}, at::kBool).triu(2), -kInfinity);
  expect_close(out.weights, at::softmax(scores, -1));
  expect_close(out.log_sum_exp, at::logsumexp(scores, -1));
  const auto have = torch::autograd::grad({out.weights.pow(2).sum() + out.log_sum_exp.sin().sum()}, {x.q});
  const auto want = torch::autograd::grad({at::softmax(scores, -1).pow(2).sum() + at::logsumexp(scores, -1).sin().sum()}, {x.q});
  expect_close(have[0], want[0]);
}

TEST(Attention, RepeatsBitForBit) {
  const auto x = random_inputs(2, 4, 2, 33, 40, 16, 16, at::kFloat);
  const auto run = [&] { return attention(x.q, x.k, x.v, {.mask = masks::causal()}); };
  EXPECT_TRUE(at::equal(run(), run()));
  EXPECT_TRUE(at::equal(gradients(run(), {x.k})[0], gradients(run(), {x.k})[0]));
}

// Plain f32 calls go to LibTorch's fused kernel: it must be indistinguishable, masks and poisoned keys included.
TEST(Attention, TheFusedKernelKeepsThePromises) {
  auto padding = masks::padding(at::tensor({9, 4}, at::kLong));
  for (const auto& mask : {Mask(), masks::causal(), masks::causal(masks::Align::top_left), padding, masks::causal() & padding, masks::sliding_window(3),
                           ~masks::full(), masks::allow(at::randn({2, 4, 9, 9}).gt(0))}) {
    const auto fused = random_inputs(2, 4, 2, 9, 9, 16, 16, at::kFloat), plain = random_inputs(2, 4, 2, 9, 9, 16, 16, at::kFloat);
    const auto have = attention(fused.q, fused.k, fused.v, {.mask = mask}), want = attention(plain.q, plain.k, plain.v, {.mask = mask, .path = AttentionPath::reference});
    expect_close(have, want, 1e-5);
    const auto have_g = gradients(have, {fused.q, fused.k, fused.v}), want_g = gradients(want, {plain.q, plain.k, plain.v});
    for (size_t i = 0; i < 3; ++i) expect_close(have_g[i], want_g[i], 1e-4);
  }
  for (int64_t S : {1, 2, 40}) {
    auto x = random_inputs(1, 1, 1, 3, S, 16, 16, at::kFloat);
    {
      const at::NoGradGuard guard;
      x.k[0][0][S / 2].fill_(NAN);
    }
    EXPECT_TRUE(attention(x.q, x.k, x.v).isnan().all().item<bool>()) << S;
  }
}

TEST(Attention, WrongCallsAreNamed) {
  const auto f = [](at::IntArrayRef shape, at::ScalarType type = at::kFloat) { return at::zeros(shape, type); };
  const auto q = f({2, 6, 3, 4}), k = f({2, 6, 5, 4}), v = f({2, 6, 5, 4});
  EXPECT_SAYS(attention(q, k, f({2, 3, 5, 4})), "attention: key has 6 heads, value has 3; both must have the same number");
  EXPECT_SAYS(attention({}, k, v), "attention: query is undefined; wanted [B, H, T, D]");
  EXPECT_SAYS(attention(q[0], k, v), "attention: query has 3 axes");
  EXPECT_SAYS(attention(q, k, v.to(at::kBFloat16)), "types Float, Float and BFloat16; all must be the same");
  EXPECT_SAYS(attention(q, f({2, 4, 5, 4}), f({2, 4, 5, 4})), "query has 6 heads, key has 4; the number of key heads must divide");
  EXPECT_SAYS(attention(q, f({2, 6, 5, 3}), v), "query has width 4, key has 3");
  EXPECT_SAYS(attention(q, k, f({2, 6, 4, 4})), "key has 5 positions, value has 4");
  EXPECT_SAYS(attention(q, f({1, 6, 5, 4}), v), "batches of 2, 1 and 2");
  EXPECT_SAYS(attention(f({2, 6, 3, 4}, at::kLong), k, v), "query has type Long");
  EXPECT_SAYS(attention(q, k, v, {.dropout = 1.5}), "dropout is 1.5; wanted a probability in [0, 1]");
  EXPECT_SAYS(attention(q, k, v, {.dropout = NAN}), "dropout is");
  EXPECT_SAYS(attention(q, k, v, {.soft_cap = -1}), "soft_cap is -1");
  EXPECT_SAYS(attention(q, k, v, {.scale = NAN}), "scale is");
  EXPECT_SAYS(attention(q, k, v, {.score = scores::dense(f({7, 3, 5}))}), "scores::dense: bias: axis H has size 7, wanted 1 or 6");
  EXPECT_SAYS(attention(q, k, v, {.score = scores::slopes(f({5}))}), "scores::slopes: wanted [H] = [6]");
  EXPECT_SAYS(attention(q, k, v, {.score = scores::bucket_table(f({32, 5}), true)}), "wanted a table [buckets, H]");
}

}  // namespace
}  // namespace fovea
