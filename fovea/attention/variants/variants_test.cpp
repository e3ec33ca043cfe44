// Every registered variant by its promises; the numbers of linear attention and Linformer are held against their
// papers' definitions in tests/parity/test_variants.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/linear.h"
#include "fovea/attention/variants/linformer.h"
#include "fovea/attention/variants/registry.h"
#include "fovea/masks/causal.h"
#include "fovea/masks/document.h"
#include "fovea/masks/padding.h"
#include "fovea/masks/sliding_window.h"
#include "fovea/scores/slopes.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

Variant make(const std::string& name, torch::ScalarType type = torch::kDouble, const std::string& sharing = "none") {
  at::manual_seed(4);
  const Variant variant = make_variant(name, {.heads = 4,
                                              .kv_heads = 2,
                                              .head_width = 3,
                                              .value_width = 5,
                                              .width = 12,
                                              .max_positions = 300,
                                              .projected = 6,
                                              .sharing = sharing});
  variant->to(type);
  return variant;
}

struct Inputs {
  explicit Inputs(int64_t T, int64_t S, torch::ScalarType type = torch::kDouble, int64_t B = 2)
      : q(f64_input({B, 4, T, 3}).detach().to(type)),
        k(f64_input({B, 2, S, 3}, 1).detach().to(type)),
        v(f64_input({B, 2, S, 5}, 2).detach().to(type)) {}
  Tensor q, k, v;
};

bool same(const Tensor& a, const Tensor& b) { return torch::allclose(a, b, 1e-10, 1e-10); }

TEST(Variants, KeepShapesAndTypesAndTellTheirWeights) {
  for (const auto& name : variants_registry().names()) {
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
      const auto variant = make(name, type);
      for (const auto& [T, S] : {std::pair{1, 1}, {3, 7}, {9, 2}, {0, 4}, {0, 0}}) {
        const Inputs in(T, S, type);
        const auto detailed = variant->attend_detailed(in.q, in.k, in.v, {});
        const auto y = variant->attend(in.q, in.k, in.v, {});
        EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 4, T, 5})) << name;
        EXPECT_EQ(y.scalar_type(), type) << name;
        EXPECT_EQ(detailed.weights.sizes(), (std::vector<int64_t>{2, 4, T, S})) << name;
        EXPECT_EQ(detailed.output.sizes(), y.sizes()) << name;
        if (type == torch::kDouble && S > 0) {
          EXPECT_TRUE(same(detailed.weights.matmul(in.v.repeat_interleave(2, 1)), y)) << name;
        }
      }
    }
  }
}

TEST(Variants, Gradients) {
  for (const auto& name : variants_registry().names()) {
    for (const char* sharing : {"none", "key_value"}) {
      const auto variant = make(name, torch::kDouble, sharing);
      const Inputs in(3, 5);
      std::vector<Tensor> inputs{in.q.clone(), in.k.clone(), in.v.clone()};
      for (auto& leaf : inputs) leaf.requires_grad_();
      const auto leaves = f64_leaves(*variant, inputs);
      const AttentionOptions options{.mask = masks::padding(at::tensor({5, 2}, at::kLong))};
      expect_gradients([&] { return variant->attend(inputs[0], inputs[1], inputs[2], options); }, leaves, 1e-5, 6);
    }
  }
}

// A hidden key does not exist, whatever it holds; a row whose keys are all hidden gives 0.
TEST(Variants, PoisonInPaddingReachesNothing) {
  for (const auto& name : variants_registry().names()) {
    const auto variant = make(name);
    const auto start = at::tensor({0, 2, 0}, at::kLong), lengths = at::tensor({4, 5, 0}, at::kLong);
    const AttentionOptions options{.mask = masks::padding(start, lengths)};
    const Inputs clean(4, 7, torch::kDouble, 3);
    const auto wanted = variant->attend(clean.q, clean.k, clean.v, options);
    EXPECT_TRUE(wanted[2].eq(0).all().item<bool>()) << name;
    Inputs bad(4, 7, torch::kDouble, 3);
    for (Tensor* x : {&bad.k, &bad.v}) {
      (*x)[0].slice(1, 4).fill_(NAN), (*x)[1].slice(1, 0, 2).fill_(INFINITY), (*x)[2].fill_(NAN);
      x->requires_grad_();
    }
    const auto y = variant->attend(bad.q, bad.k, bad.v, options);
    EXPECT_TRUE(same(y, wanted)) << name;
    y.sin().sum().backward();
    EXPECT_TRUE(bad.k.grad().isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(bad.v.grad().isfinite().all().item<bool>()) << name;
    for (const auto& parameter : variant->parameters())
      EXPECT_TRUE(!parameter.grad().defined() || parameter.grad().isfinite().all().item<bool>());
  }
}

TEST(Variants, ARowDoesNotDependOnTheSideOfItsPadding) {
  for (const auto& name : variants_registry().names()) {
    const auto variant = make(name);
    const Inputs in(5, 5, torch::kDouble, 1);
    const auto alone = variant->attend(in.q, in.k, in.v, {});
    const auto wide = [](const Tensor& x, int64_t left, int64_t right) {
      return torch::constant_pad_nd(x, {0, 0, left, right}, 9.5);
    };
    for (const auto& [left, right] : {std::pair{3, 0}, {0, 2}, {1, 4}}) {
      const AttentionOptions options{.mask = masks::padding(at::tensor({left}, at::kLong), at::tensor({5}, at::kLong))};
      const auto q = wide(in.q, left, right), k = wide(in.k, left, right), v = wide(in.v, left, right);
      EXPECT_TRUE(same(variant->attend(q, k, v, options).narrow(2, left, 5), alone)) << name;
      EXPECT_TRUE(
          same(variant->attend_detailed(q, k, v, options).weights.matmul(v.repeat_interleave(2, 1)).narrow(2, left, 5),
               alone))
          << name;
    }
  }
}

// ---- Linear attention -----------------------------------------------------------------------------------------------

TEST(LinearVariant, AStateStandsForAnyNumberOfTokens) {
  const torch::NoGradGuard no_grad;
  const auto linear = make("linear");
  const Inputs in(200, 200);
  const auto whole = linear->attend(in.q, in.k, in.v, {.mask = masks::causal()});
  LayerCache cache;
  int64_t done = 0;
  for (const int64_t count : {70, 1, 1, 100, 28}) {
    const auto cut = [&](const Tensor& x) { return x.narrow(2, done, count); };
    const auto y = linear->attend_cached(cut(in.q), cut(in.k), cut(in.v), cache, {.mask = masks::causal()});
    EXPECT_TRUE(same(y, whole.narrow(2, done, count))) << done;
    done += count;
    EXPECT_EQ(cache.length(), done);
    EXPECT_EQ(cache.state().sizes(), (std::vector<int64_t>{2, 2, 3, 6}));
    EXPECT_FALSE(cache.key().defined());
  }
  const auto message = error_of([&] { linear->attend_cached_detailed(in.q, in.k, in.v, cache, {}); });
  EXPECT_NE(message.find("weights after 200 cached tokens"), std::string::npos) << message;
  LayerCache fresh;
  const auto detailed = linear->attend_cached_detailed(in.q, in.k, in.v, fresh, {.mask = masks::causal()});
  EXPECT_TRUE(same(detailed.output, whole));
  EXPECT_TRUE(same(fresh.state(), cache.state()));
  EXPECT_TRUE(detailed.weights.triu(1).eq(0).all().item<bool>());
}

// Of equal keys and values the output is the value. A state in f32 would be off by a thousandth by then.
TEST(LinearVariant, AStateDoesNotDriftHoweverManyTokensThereAre) {
  const torch::NoGradGuard no_grad;
  constexpr int64_t kTokens = 100000;
  const auto linear = make("linear", torch::kFloat);
  const Inputs in(1, 1, torch::kFloat, 1);
  const auto wanted = in.v.repeat_interleave(2, 1);
  const auto off = [&](const Tensor& y) { return ((y - wanted) / wanted).abs().max().item<float>(); };
  LayerCache cache;
  Tensor y;
  for (int64_t t = 0; t < kTokens; ++t) y = linear->attend_cached(in.q, in.k, in.v, cache, {});
  EXPECT_LT(off(y), 1e-6);
  const auto many = [](const Tensor& x) { return x.expand({-1, -1, kTokens, -1}); };
  y = linear->attend(many(in.q), many(in.k), many(in.v), {.mask = masks::causal()});
  EXPECT_LT(off(y.slice(2, kTokens - 1)), 2e-6);  // the rounding of one chunk's sum
}

TEST(LinearVariant, CausalIsLowerRight) {
  const auto linear = make("linear");
  for (const auto& [T, S] : {std::pair{3, 9}, {100, 170}, {9, 3}, {1, 5}, {130, 1}}) {
    const Inputs in(T, S);
    const auto weights = linear->attend_detailed(in.q, in.k, in.v, {.mask = masks::causal()}).weights;
    EXPECT_TRUE(weights.triu(S - T + 1).eq(0).all().item<bool>());
    const auto y = linear->attend(in.q, in.k, in.v, {.mask = masks::causal()});
    EXPECT_TRUE(same(y, weights.matmul(in.v.repeat_interleave(2, 1)))) << T << " " << S;
  }
}

// What a later token holds reaches no earlier one, though it stands in the same chunk.
TEST(LinearVariant, AVisibleNaNGivesNaNAndAHiddenOneNothing) {
  const auto linear = make("linear");
  for (const int64_t bad : {0, 3, 64, 99}) {
    const Inputs clean(100, 100);
    Inputs in(100, 100);
    const auto wanted = linear->attend(clean.q, clean.k, clean.v, {.mask = masks::causal()});
    in.k[1][0][bad][2] = NAN;
    in.v[0][1][bad][0] = -INFINITY;
    for (Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
    const auto y = linear->attend(in.q, in.k, in.v, {.mask = masks::causal()});
    const auto broken = y.isnan().any(-1);  // [B, H, T]
    for (const auto& [b, h, is] : {std::tuple{0, 0, false}, {0, 2, true}, {0, 3, true}, {1, 0, true}, {1, 2, false}})
      EXPECT_TRUE(torch::equal(broken[b][h], torch::arange(100).ge(is ? bad : 100))) << bad << b << h;
    EXPECT_TRUE(same(y.slice(2, 0, bad), wanted.slice(2, 0, bad)));
    y.slice(2, 0, bad).sin().sum().backward();
    for (const Tensor& x : {in.q, in.k, in.v}) EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << bad;
  }
  LayerCache cache;
  Inputs in(3, 3);
  in.k[0][0][1][0] = NAN;
  linear->attend_cached(in.q, in.k, in.v, cache, {.mask = masks::causal()});
  const Inputs next(1, 1);
  const auto y = linear->attend_cached(next.q, next.k, next.v, cache, {});
  EXPECT_TRUE(y[0].slice(0, 0, 2).isnan().all().item<bool>());
  EXPECT_TRUE(y[0].slice(0, 2).isfinite().all().item<bool>() && y[1].isfinite().all().item<bool>());
}

TEST(LinearVariant, WhatItCannotHonourIsAnError) {
  const auto linear = make("linear");
  const Inputs in(4, 4);
  const auto says = [&](const AttentionOptions& options, const char* part) {
    const auto message = error_of([&] { linear->attend(in.q, in.k, in.v, options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says({.mask = masks::sliding_window(2)},
       "cannot hide single keys from single queries, as the mask \"sliding_window\"");
  says({.mask = masks::document(at::zeros({2, 4}, at::kLong))}, "\"document\"");
  says({.mask = ~masks::causal()}, "of several parts");
  says({.mask = masks::causal() | masks::causal()}, "of several parts");
  says({.mask = masks::rule([](int64_t, int64_t, int64_t, int64_t) { return true; })}, "one's own");
  says({.score = scores::slopes(at::ones({4}))}, "no scores to add a bias to");
  says({.soft_cap = 3}, "no scores");
  says({.dropout = 0.1}, "dropout is 0.1, but it has no weights to drop");
  LayerCache cache;
  linear->attend_cached(in.q, in.k, in.v, cache, {});
  const Inputs other(1, 1, torch::kDouble, 3);
  EXPECT_NE(error_of([&] { linear->attend_cached(other.q, other.k, other.v, cache, {}); }).find("holds 2 rows, 3 came"),
            std::string::npos);
}

// ---- Linformer ------------------------------------------------------------------------------------------------------

TEST(LinformerVariant, SharingSaysHowManyProjectionsThereAre) {
  const auto sizes = [](const char* sharing) {
    std::vector<std::vector<int64_t>> out;
    for (const auto& parameter : make("linformer", torch::kDouble, sharing)->parameters())
      out.push_back(parameter.sizes().vec());
    return out;
  };
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(sizes("none"), (Sizes{{2, 6, 300}, {2, 6, 300}}));
  EXPECT_EQ(sizes("heads"), (Sizes{{6, 300}, {6, 300}}));
  EXPECT_EQ(sizes("key_value"), (Sizes{{6, 300}}));
  EXPECT_EQ(sizes("layers"), (Sizes{{6, 300}}));
  EXPECT_TRUE(make("linformer", torch::kDouble, "layers")->shared_by_layers());
  EXPECT_FALSE(make("linformer")->shared_by_layers());
}

TEST(LinformerVariant, Errors) {
  const auto config = [](VariantOptions options, const char* part) {
    const auto message = error_of([&] { make_variant("linformer", options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  config({.kv_heads = 1, .projected = 4}, "max_positions is 0, wanted the length of the longest sequence");
  config({.kv_heads = 1, .max_positions = 4}, "projected is 0, wanted at least 1");
  config({.kv_heads = 1, .max_positions = 4, .projected = 2, .sharing = "head"}, "did you mean \"heads\"");
  const auto linformer = make("linformer");
  const auto says = [&](int64_t S, const AttentionOptions& options, const char* part) {
    const Inputs in(S, S);
    const auto message = error_of([&] { linformer->attend(in.q, in.k, in.v, options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(301, {}, "a sequence of 301 tokens; its projections were made for at most 300");
  says(4, {.mask = masks::causal()}, "cannot be causal");
  says(4, {.mask = masks::sliding_window(2)}, "\"sliding_window\"");
  says(4, {.score = scores::slopes(at::ones({4}))}, "projected keys have no place");
  LayerCache cache;
  const Inputs in(1, 1);
  EXPECT_NE(error_of([&] { linformer->attend_cached(in.q, in.k, in.v, cache, {}); }).find("cannot be continued"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
