// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/longformer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "fovea/attention/attention.h"
#include "fovea/base/probe.h"
#include "fovea/masks/padding.h"
#include "fovea/masks/window_global.h"
#include "fovea/scores/slopes.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

Attention global_attention(bool bias = true) {
  torch::manual_seed(3);
  Attention attention(
      {.width = 12, .heads = 4, .kv_heads = 2, .value_width = 5, .bias = bias, .variant = "longformer"});
  attention->to(torch::kDouble);
  attention->eval();
  return attention;
}

Tensor marks_of(std::vector<std::vector<int64_t>> rows, int64_t T) {
  Tensor out = at::zeros({int64_t(rows.size()), T}, at::kBool);
  for (size_t b = 0; b < rows.size(); ++b)
    for (const int64_t t : rows[b]) out[int64_t(b)][t].fill_(true);
  return out;
}

AttendInput windowed(int64_t reach, const Tensor& global, const Mask& mask = {}) {
  return {.mask = mask, .local_mask = masks::window_global(reach, global, false), .global = global};
}

// Token by token, by the definition.
Tensor one_by_one(const AttentionImpl& a, const Tensor& x, int64_t reach, const Tensor& global, const Tensor& lengths) {
  const auto& own = dynamic_cast<const LongformerVariantImpl&>(*a.variant);
  const auto heads = [](const torch::nn::Linear& l, const Tensor& rows, int64_t count) {
    Tensor y = at::linear(rows, l->weight, l->bias).unflatten(-1, {count, -1}).transpose(0, 1);  // [heads, n, width]
    return count == 2 ? y.repeat_interleave(2, 0) : y;
  };
  Tensor out = at::zeros({x.size(0), x.size(1), 20}, at::kDouble);
  for (int64_t b = 0; b < x.size(0); ++b) {
    for (int64_t t = 0; t < x.size(1); ++t) {
      const bool sees_all = global[b][t].item<bool>();
      const Tensor place = at::arange(lengths[b].item<int64_t>());
      const Tensor near = (place - t).abs().le(reach).logical_or(global[b].slice(0, 0, place.size(0)));
      const Tensor keys = sees_all ? x[b].slice(0, 0, place.size(0)) : x[b].index({place.index({near})});
      if (keys.size(0) == 0) continue;
      const Tensor q = heads(sees_all ? own.query : a.query, x[b].slice(0, t, t + 1), 4);  // [H, 1, D]
      const Tensor k = heads(sees_all ? own.key : a.key, keys, 2), v = heads(sees_all ? own.value : a.value, keys, 2);
      const Tensor weights = at::softmax(at::matmul(q, k.transpose(1, 2)) / std::sqrt(3.0), -1);
      out[b][t] = at::matmul(weights, v).flatten();  // [H · E]
    }
  }
  return at::linear(out, a.output->weight, a.output->bias);
}

TEST(LongformerVariant, EqualsItsDefinition) {
  const auto x = f64_input({3, 11, 12}).detach();
  const auto lengths = at::tensor({11, 7, 1}, at::kLong);
  const auto a = global_attention();
  // Up to two global tokens a row share the tokens between heads, more have keys and values of their own.
  for (const auto& marks : {marks_of({{0, 5, 10}, {6}, {}}, 11), marks_of({{}, {}, {}}, 11),
                            marks_of({{}, {0, 1, 2, 3, 4, 5, 6}, {0}}, 11), marks_of({{3, 10}, {6}, {}}, 11)})
    for (const int64_t reach : {0, 2, 20}) {
      const auto have = a->forward(x, windowed(reach, marks, masks::padding(lengths)));
      const auto want = one_by_one(*a, x, reach, marks, lengths);
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t n = lengths[b].item<int64_t>();
        EXPECT_TRUE(at::allclose(have[b].slice(0, 0, n), want[b].slice(0, 0, n))) << b << ' ' << reach;
      }
    }
}

TEST(LongformerVariant, Gradients) {
  auto a = global_attention();
  const auto x = f64_input({2, 6, 12});
  for (const auto& marks : {marks_of({{1, 4}, {3}}, 6), marks_of({{1, 4, 5}, {3}}, 6)})
    expect_gradients(
        [&] {
          return a->forward(x, windowed(1, marks, masks::padding(at::tensor({6, 5}, at::kLong))));
        },
        f64_leaves(*a, {x}));
}

TEST(LongformerVariant, FusedIsNearItsDefinition) {
  torch::manual_seed(4);
  Attention a({.width = 48, .heads = 3, .variant = "longformer"});
  const auto x = at::randn({2, 300, 48});
  std::vector<int64_t> many(20);
  std::iota(many.begin(), many.end(), 100);
  const auto run = [&](const Tensor& input, const std::vector<int64_t>& first) {
    const auto in = windowed(20, marks_of({first, {77}}, 300), masks::padding(at::tensor({300, 190}, at::kLong)));
    a->zero_grad();
    const Tensor y = a->forward(input, in);
    y.mul(at::arange(y.numel(), y.options()).remainder(7).view_as(y)).sum().backward();
    std::vector<Tensor> out{y.detach()};
    for (const auto& p : a->parameters()) out.push_back(p.grad().clone());
    return out;
  };
  for (const std::vector<int64_t>& first : {std::vector<int64_t>{0, 1, 2, 150, 299}, many}) {
    a->to(at::kFloat);
    const auto have = run(x, first);
    a->to(at::kDouble);  // by the reference
    const auto want = run(x.to(at::kDouble), first);
    double largest = 0;  // a key's bias moves all scores of a softmax alike: its gradient is rounding
    for (const Tensor& wanted : want) largest = std::max(largest, wanted.abs().max().item<double>());
    for (size_t i = 0; i < have.size(); ++i)
      EXPECT_LT((have[i] - want[i]).abs().max().item<double>(),
                1e-5 * want[i].abs().max().item<double>() + 1e-7 * largest)
          << i << ' ' << first.size();
  }
}

TEST(LongformerVariant, WeightsOnRequestGiveTheSameOutput) {
  const auto a = global_attention();
  const auto x = f64_input({2, 6, 12}).detach();
  const auto in = windowed(1, marks_of({{2}, {0, 5}}, 6));
  const auto plain = a->forward(x, in);
  Tensor weights;
  const Probe probe = Probe::on("*.weights", [&](std::string_view, const Tensor& w) { weights = w; });
  EXPECT_TRUE(at::allclose(a->forward(x, in), plain));
  ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{2, 4, 6, 6}));
  EXPECT_TRUE(at::allclose(weights.sum(-1), at::ones({2, 4, 6}, at::kDouble)));
  EXPECT_TRUE(weights.select(2, 2)[0].gt(0).all().item<bool>());  // the global token sees all
  EXPECT_EQ(weights[0][0][5][0].item<double>(), 0);
  EXPECT_GT(weights[0][0][5][2].item<double>(), 0);
}

TEST(LongformerVariant, AMaskMayDifferByHead) {
  const auto a = global_attention();
  const auto x = f64_input({1, 6, 12}).detach();
  const Mask mask = masks::rule([](int64_t, int64_t h, int64_t, int64_t key) { return key != h; });
  Tensor weights;
  const Probe probe = Probe::on("*.weights", [&](std::string_view, const Tensor& w) { weights = w; });
  for (const auto& marks : {marks_of({{0, 5}}, 6), marks_of({{0, 4, 5}}, 6)}) {
    a->forward(x, windowed(1, marks, mask));
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t key = 0; key < 6; ++key) EXPECT_EQ(weights[0][h][5][key].item<double>() > 0, key != h) << h << key;
  }
}

TEST(LongformerVariant, EmptySizesAndWrongCalls) {
  const auto a = global_attention(false);
  const auto run = [&](int64_t B, int64_t T) {
    return a->forward(at::zeros({B, T, 12}, at::kDouble), windowed(1, at::ones({B, T}, at::kBool))).sizes().vec();
  };
  EXPECT_EQ(run(2, 0), (std::vector<int64_t>{2, 0, 12}));
  EXPECT_EQ(run(0, 3), (std::vector<int64_t>{0, 3, 12}));
  EXPECT_EQ(run(1, 1), (std::vector<int64_t>{1, 1, 12}));
  const auto x = f64_input({1, 4, 12}).detach(), marks = marks_of({{1}}, 4);
  const auto says = [](const std::function<void()>& call, const char* part) {
    const auto message = error_of(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says([&] { a->forward(x, windowed(1, marks_of({{1}}, 5))); }, "wanted bool [1, 4]");
  says([&] { a->forward(x, {.global = marks.to(at::kLong)}); }, "wanted bool [1, 4]");
  LayerCache cache;
  says([&] { a->forward(x, {.cache = &cache, .global = marks}); }, "without a cache");
  says([&] { a->forward(x, {.score = scores::slopes(at::ones({4})), .global = marks}); }, "score bias");
  Attention plain({.width = 12, .heads = 4});
  plain->to(at::kDouble);
  says([&] { plain->forward(x, windowed(1, marks)); }, "\"longformer\" has");
}

}  // namespace
}  // namespace fovea
