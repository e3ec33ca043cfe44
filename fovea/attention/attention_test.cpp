// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/attention.h"

#include <thread>

#include "fovea/base/probe.h"
#include "fovea/masks/causal.h"
#include "fovea/masks/dense.h"
#include "fovea/masks/padding.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

Attention make(MultiHeadOptions options) {
  torch::manual_seed(3);
  Attention attention(std::move(options));
  attention->to(torch::kDouble);
  attention->eval();
  return attention;
}

torch::Tensor input(torch::IntArrayRef sizes, double phase = 0) { return f64_input(sizes, phase).detach(); }

// Multi-head attention by LibTorch's own operations; `visible` is true where a key is seen.
torch::Tensor by_hand(const AttentionImpl& a, const torch::Tensor& x, const torch::Tensor& memory,
                      const torch::Tensor& visible = {}) {
  const auto& o = a.options();
  const auto split = [](const torch::Tensor& y, int64_t heads) { return y.unflatten(-1, {heads, -1}).transpose(1, 2); };
  const auto project = [](const torch::nn::Linear& l, const torch::Tensor& y) {
    return at::linear(y, l->weight, l->bias);
  };
  const auto q = split(project(a.query, x), o.heads);
  const auto k = split(project(a.key, memory), o.kv_heads).repeat_interleave(o.heads / o.kv_heads, 1);
  const auto v = split(project(a.value, memory), o.kv_heads).repeat_interleave(o.heads / o.kv_heads, 1);
  auto scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(double(o.head_width));
  if (visible.defined()) scores = scores.masked_fill(~visible, -INFINITY);
  return project(a.output, torch::matmul(torch::softmax(scores, -1), v).transpose(1, 2).flatten(2));
}

TEST(Attention, EqualsItsDefinition) {
  const auto x = input({2, 5, 12}), memory = input({2, 7, 10}, 1);
  for (const int64_t kv_heads : {4, 2, 1}) {
    for (const int64_t value_width : {3, 5}) {
      const auto self = make({.width = 12, .heads = 4, .kv_heads = kv_heads, .value_width = value_width});
      EXPECT_TRUE(torch::allclose(self->forward(x), by_hand(*self, x, x)));
      const auto causal = torch::ones({5, 5}, torch::kBool).tril();
      EXPECT_TRUE(torch::allclose(self->forward(x, {.mask = masks::causal()}), by_hand(*self, x, x, causal)));
      const auto cross = make({.width = 12,
                               .heads = 4,
                               .kv_heads = kv_heads,
                               .head_width = 6,
                               .value_width = value_width,
                               .memory_width = 10});
      EXPECT_TRUE(torch::allclose(cross->forward(x, {.memory = memory}), by_hand(*cross, x, memory)));
    }
  }
}

TEST(Attention, OptionsReachTheCall) {
  const auto x = input({1, 4, 6});
  auto plain = make({.width = 6, .heads = 2}), scaled = make({.width = 6, .heads = 2, .scale = 1}),
       capped = make({.width = 6, .heads = 2, .soft_cap = 0.01});
  const auto q = plain->query(x).unflatten(-1, {2, 3}).transpose(1, 2),
             k = plain->key(x).unflatten(-1, {2, 3}).transpose(1, 2),
             v = plain->value(x).unflatten(-1, {2, 3}).transpose(1, 2);
  const auto out = [&](AttentionOptions options) {
    return plain->output(attention(q, k, v, options).transpose(1, 2).flatten(2));
  };
  EXPECT_TRUE(torch::allclose(scaled->forward(x), out({.scale = 1.0})));
  EXPECT_TRUE(torch::allclose(capped->forward(x), out({.soft_cap = 0.01})));
  EXPECT_FALSE(torch::allclose(capped->forward(x), plain->forward(x)));

  const auto bare = make({.width = 6, .heads = 2, .bias = false});
  EXPECT_EQ(bare->parameters().size(), 4u);
  EXPECT_EQ(make({.width = 6, .heads = 2, .bias = true, .output_bias = false})->parameters().size(), 7u);
}

TEST(Attention, GradientsOfEveryParameter) {
  for (const char* position : {"none", "rope", "alibi", "t5_bias", "learned", "sinusoidal"}) {
    auto a = make({.width = 8,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_width = 4,
                   .value_width = 3,
                   .position = position,
                   .positions = {.max_positions = 8}});
    const auto x = f64_input({2, 4, 8});
    const auto leaves = f64_leaves(*a, {x});
    const auto mask = masks::causal() & masks::padding(torch::tensor({4, 2}, torch::kLong));
    expect_gradients([&] { return a->forward(x, {.mask = mask}); }, leaves, 2e-6, 8);
  }
  auto cross = make({.width = 6, .heads = 2, .memory_width = 5});
  const auto x = f64_input({2, 3, 6}), memory = f64_input({2, 4, 5}, 1);
  const auto leaves = f64_leaves(*cross, {x, memory});
  expect_gradients([&] { return cross->forward(x, {.memory = memory}); }, leaves, 2e-6, 8);
}

// Permuting the tokens permutes the output; a position encoding breaks that.
TEST(Attention, OrderMattersOnlyWithPositions) {
  const auto x = input({1, 6, 8});
  const auto order = torch::tensor({3, 0, 5, 1, 4, 2}, torch::kLong);
  for (const char* position : {"none", "sinusoidal", "learned", "rope", "alibi", "t5_bias"}) {
    auto a =
        make({.width = 8, .heads = 2, .position = position, .positions = {.max_positions = 8, .bidirectional = true}});
    for (auto& item : a->named_parameters())
      if (item.key().find("position") == 0) item.value().data().mul_(50);  // fresh tables are small
    const bool same =
        torch::allclose(a->forward(x.index_select(1, order)), a->forward(x).index_select(1, order), 1e-9, 1e-9);
    EXPECT_EQ(same, std::string(position) == "none") << position;
  }
}

TEST(Attention, ASampleDoesNotDependOnItsBatchMates) {
  const auto a = make({.width = 8, .heads = 2});
  auto x = input({2, 5, 8});
  const auto mask = masks::padding(torch::tensor({3, 5}, torch::kLong));
  const auto before = a->forward(x, {.mask = mask})[0];
  x[1] += 1;
  EXPECT_TRUE(torch::equal(a->forward(x, {.mask = mask})[0], before));
  x[0].slice(0, 3).fill_(NAN);  // hidden keys do not exist
  EXPECT_TRUE(torch::equal(a->forward(x, {.mask = mask})[0].slice(0, 0, 3), before.slice(0, 0, 3)));
}

TEST(Attention, CachedStepsEqualTheFullForward) {
  const torch::NoGradGuard no_grad;
  const auto x = input({2, 9, 8});
  for (const char* position : {"none", "sinusoidal", "learned", "rope", "alibi", "t5_bias"}) {
    const auto a = make({.width = 8,
                         .heads = 4,
                         .kv_heads = 2,
                         .value_width = 3,
                         .position = position,
                         .positions = {.max_positions = 16}});
    const auto full = a->forward(x, {.mask = masks::causal()});
    LayerCache cache;
    int64_t done = 0;
    for (const int64_t count : {3, 1, 1, 2, 1, 1}) {
      const auto y = a->forward(x.slice(1, done, done + count), {.mask = masks::causal(), .cache = &cache});
      EXPECT_TRUE(torch::allclose(y, full.slice(1, done, done + count), 1e-9, 1e-9)) << position << " at " << done;
      done += count;
    }
    EXPECT_EQ(cache.length(), 9);
  }
}

TEST(Attention, LeftPaddedRowsEqualSingleRuns) {
  const torch::NoGradGuard no_grad;
  const auto x = input({2, 6, 8});
  const auto start = torch::tensor({0, 2}, torch::kLong);
  for (const char* position : {"none", "sinusoidal", "learned", "rope", "alibi", "t5_bias"}) {
    const auto a = make({.width = 8, .heads = 2, .position = position, .positions = {.max_positions = 16}});
    const auto alone = a->forward(x.slice(0, 1).slice(1, 2), {.mask = masks::causal()});
    LayerCache cache;
    const auto step = [&](int64_t from, int64_t to) {
      return a->forward(x.slice(1, from, to), {.mask = masks::causal() & masks::padding_left(start),
                                               .cache = &cache,
                                               .positions = Positions::after_padding(start, to - from, from)});
    };
    const auto batched = torch::cat({step(0, 4), step(4, 5), step(5, 6)}, 1);
    EXPECT_TRUE(torch::allclose(batched[1].slice(0, 2), alone[0], 1e-9, 1e-9)) << position;
  }
}

TEST(Attention, CrossKeysAreComputedOnce) {
  const torch::NoGradGuard no_grad;
  const auto a = make({.width = 8, .heads = 2, .memory_width = 5});
  const auto x = input({2, 3, 8}), memory = input({2, 4, 5});
  const auto mask = masks::padding(torch::tensor({4, 2}, torch::kLong));
  const auto wanted = a->forward(x, {.memory = memory, .mask = mask});
  LayerCache cache;
  for (int64_t t = 0; t < 3; ++t) {
    const auto y =
        a->forward(x.slice(1, t, t + 1), {.memory = t == 0 ? memory : memory + 1, .mask = mask, .cache = &cache});
    EXPECT_TRUE(torch::allclose(y, wanted.slice(1, t, t + 1)));
    EXPECT_EQ(cache.length(), 4);
  }
}

TEST(Attention, DropoutWorksInTrainingOnly) {
  const auto x = input({1, 6, 8});
  auto a = make({.width = 8, .heads = 2, .dropout = 0.8});
  const auto without = make({.width = 8, .heads = 2});
  EXPECT_TRUE(torch::equal(a->forward(x), a->forward(x)));
  EXPECT_TRUE(torch::equal(a->forward(x), without->forward(x)));
  a->train();
  EXPECT_FALSE(torch::allclose(a->forward(x), a->forward(x)));
  torch::manual_seed(5);
  const auto first = a->forward(x);
  torch::manual_seed(5);
  EXPECT_TRUE(torch::equal(a->forward(x), first));

  auto certain = make({.width = 8, .heads = 2, .dropout = 1});
  certain->train();
  const auto y = certain->forward(x);
  EXPECT_TRUE(torch::equal(y, certain->output->bias.expand_as(y)));
}

// One head sees nothing; asking for weights must not change the output.
TEST(Attention, WeightsComeWithTheSameOutput) {
  const auto a = make({.width = 3, .heads = 3});
  const auto x = input({1, 5, 3});
  auto visible = torch::ones({3, 5, 5}, torch::kBool);
  visible[1].fill_(false);
  const AttendInput in{.mask = masks::allow(visible)};
  const auto without = a->forward(x, in);
  torch::Tensor weights;
  std::string seen;
  const auto probe =
      Probe::on("*attention.weights", [&](std::string_view name, const torch::Tensor& w) { seen = name, weights = w; });
  const auto with = a->forward(x, in);
  EXPECT_EQ(seen, "attention.weights");
  EXPECT_TRUE(torch::isfinite(without).all().item<bool>());
  EXPECT_TRUE(torch::allclose(with, without));
  ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{1, 3, 5, 5}));
  EXPECT_TRUE((weights[0][1] == 0).all().item<bool>());
  EXPECT_TRUE(torch::allclose(weights[0][0].sum(-1), torch::ones(5, torch::kDouble)));
}

TEST(Attention, CausalWeightsAreExactlyZeroAboveTheDiagonal) {
  const auto a = make({.width = 4, .heads = 2});
  torch::Tensor weights;
  const auto probe = Probe::on("attention.weights", [&](std::string_view, const torch::Tensor& w) { weights = w; });
  a->forward(input({1, 3, 4}), {.mask = masks::causal()});
  EXPECT_TRUE((weights.triu(1) == 0).all().item<bool>());
}

TEST(Attention, ARowThatSeesNothingHasZeroGradientsAlsoInTheProjections) {
  auto a = make({.width = 8, .heads = 2});
  const auto x = f64_input({2, 4, 8});
  const auto y = a->forward(x, {.mask = masks::padding(torch::tensor({0, 3}, torch::kLong))});
  EXPECT_TRUE(torch::equal(y[0], a->output->bias.expand({4, 8})));
  y[0].sum().backward();
  EXPECT_TRUE((x.grad() == 0).all().item<bool>());
  for (const auto& item : a->named_parameters()) {
    const auto gradient = item.value().grad();
    EXPECT_TRUE(!gradient.defined() || torch::isfinite(gradient).all().item<bool>()) << item.key();
    if (item.key() != "output.bias") {
      EXPECT_TRUE(!gradient.defined() || (gradient == 0).all().item<bool>()) << item.key();
    }
  }
}

TEST(Attention, CrossAttentionHasNoPosition) {
  const auto with = make({.width = 8, .heads = 2, .position = "alibi"}), without = make({.width = 8, .heads = 2});
  const auto x = input({1, 3, 8}), memory = input({1, 5, 8}, 1);
  const auto pass = with->position->prepare(Positions(0), 3, 5, x.options());
  EXPECT_TRUE(torch::equal(with->forward(x, {.memory = memory}), without->forward(x, {.memory = memory})));
  EXPECT_TRUE(
      torch::equal(with->forward(x, {.memory = memory, .position = &pass}), without->forward(x, {.memory = memory})));
}

TEST(Attention, ThreadsMayShareIt) {
  const auto a = make({.width = 8, .heads = 2, .position = "rope"});
  const AttentionImpl& shared = *a;
  const auto x = input({1, 40, 8});
  const auto run = [&] {
    const torch::NoGradGuard no_grad;
    LayerCache cache;
    std::vector<torch::Tensor> out;
    for (int64_t t = 0; t < 40; ++t) out.push_back(shared.forward(x.slice(1, t, t + 1), {.cache = &cache}));
    return torch::cat(out, 1);
  };
  const auto wanted = run();
  std::vector<torch::Tensor> got(3);
  std::vector<std::thread> threads;
  for (auto& result : got) threads.emplace_back([&] { result = run(); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : got) EXPECT_TRUE(torch::allclose(result, wanted, 1e-12, 1e-12));
}

TEST(Attention, EmptySizes) {
  auto a = make({.width = 8, .heads = 2});
  for (const auto& sizes : {std::vector<int64_t>{0, 3, 8}, std::vector<int64_t>{2, 0, 8}})
    EXPECT_EQ(a->forward(torch::zeros(sizes, torch::kDouble)).sizes(), sizes);
  const auto x = f64_input({1, 2, 8});
  const auto y = a->forward(x, {.memory = torch::zeros({1, 0, 8}, torch::kDouble)});
  EXPECT_TRUE(torch::equal(y, a->output->bias.expand_as(y)));
  y.sum().backward();
  EXPECT_TRUE((x.grad() == 0).all().item<bool>());
}

TEST(Attention, Errors) {
  const auto says = [](MultiHeadOptions options, const char* wanted) {
    const auto message = error_of([&] { Attention a(options); });
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  };
  says({.width = 10, .heads = 4}, "width 10 does not divide into 4 heads");
  says({.width = 8, .heads = 0}, "heads is 0");
  says({.heads = 2}, "width is 0");
  says({.width = 8, .heads = 4, .kv_heads = 3}, "kv_heads is 3, wanted a divisor of the 4 heads");
  says({.width = 8, .heads = 4, .position = "rop"}, "did you mean \"rope\"");
  says({.width = 8, .heads = 4, .dropout = -0.1}, "dropout is -0.1");
  says({.width = 8, .heads = 4, .variant = "softmx"}, "did you mean \"softmax\"");

  const auto a = make({.width = 8, .heads = 2, .memory_width = 5});
  const auto x = input({2, 3, 8});
  const auto fails = [&](const torch::Tensor& q, const AttendInput& in, const char* wanted) {
    const auto message = error_of([&] { a->forward(q, in); });
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  };
  fails(input({2, 3, 7}), {}, "x is [2, 3, 7], wanted [B, T, C] with C = 8");
  fails(input({3, 8}), {}, "wanted [B, T, C]");
  fails(x, {}, "a memory of 5 channels is wanted");
  fails(x, {.memory = input({2, 3, 5}), .positions = torch::ones({3, 3}, torch::kLong)},
        "positions are [3, 3], wanted [T] or [B, T] with B = 2");
  fails(x, {.memory = input({1, 3, 5})}, "memory is [1, 3, 5], wanted [B, S, M] with B = 2, M = 5");
}

}  // namespace
}  // namespace fovea
