// What attention promises whoever computes it: each line on f64, f32 and bf16, forward and backward, against the
// definition in f64. The call's own tests (fovea/ops/attention_test.cpp) hold the definition against numbers by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>

#include "fovea/base/error.h"
#include "fovea/masks/all.h"
#include "fovea/masks/registry.h"
#include "fovea/scores/all.h"

namespace fovea {
namespace {

constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kBFloat16};

// Of the largest number: rounding of sums of some tens of terms, then of the result.
double allowed_error(at::ScalarType type) { return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 2e-2; }

void expect_near(const Tensor& have, const Tensor& want, at::ScalarType type, const char* what) {
  ASSERT_EQ(have.sizes(), want.sizes()) << what;
  ASSERT_TRUE(have.isfinite().all().item<bool>()) << what;
  if (have.numel() == 0) return;
  const double worst = (have.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(worst, allowed_error(type) * (1 + want.abs().max().item<double>())) << what << ", " << toString(type);
}

// The output and the gradients of q, k, v for a loss that weighs every number of it differently.
struct Outcome {
  std::vector<Tensor> results;
  Outcome(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    const std::vector<Tensor> leaves{q.detach().requires_grad_(), k.detach().requires_grad_(),
                                     v.detach().requires_grad_()};
    const Tensor out = attention(leaves[0], leaves[1], leaves[2], options);
    const Tensor weight = at::arange(out.numel(), at::kDouble).mul(0.7).sin().view(out.sizes()).to(out.scalar_type());
    results = torch::autograd::grad({(out * weight).sum()}, leaves);
    results.insert(results.begin(), out.detach());
  }
};

void expect_same(const Outcome& have, const Outcome& want, at::ScalarType type) {
  const char* const names[] = {"output", "query gradient", "key gradient", "value gradient"};
  for (size_t i = 0; i < 4; ++i) expect_near(have.results[i], want.results[i], type, names[i]);
}

// The definition answers f64.
Outcome definition(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return Outcome(q.to(at::kDouble).contiguous(), k.to(at::kDouble).contiguous(), v.to(at::kDouble).contiguous(),
                 options);
}

Tensor random_tensor(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape, at::kDouble).to(type); }

// pytorch #187506, #112577: wrong numbers where the innermost stride is not 1; broadcast strides of 0, any order of
// axes.
TEST(AttentionOfAnyType, StridesAreStrides) {
  for (const auto type : kTypes) {
    at::manual_seed(2);
    const auto swapped = [&] { return random_tensor({1, 2, 16, 8}, type).transpose(-1, -2); };   // innermost stride 8
    const auto sliced = [&] { return random_tensor({1, 2, 8, 32}, type).slice(-1, 0, 32, 2); };  // innermost stride 2
    const auto repeated = [&] { return random_tensor({1, 1, 1, 16}, type).expand({1, 2, 8, 16}); };  // 0 in heads, rows
    const auto constant = [&] {
      return random_tensor({1, 2, 8, 1}, type).expand({1, 2, 8, 16});
    };                                                                                             // innermost stride 0
    const auto heads_inside = [&] { return random_tensor({1, 8, 2, 16}, type).transpose(1, 2); };  // [B, T, H, D]
    const std::vector<std::function<Tensor()>> kinds{swapped, sliced, repeated, constant, heads_inside};
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto q = kinds[i](), k = kinds[(i + 1) % kinds.size()](), v = kinds[(i + 2) % kinds.size()]();
      for (const Mask& mask : {Mask(), masks::causal()})
        expect_same(Outcome(q, k, v, {.mask = mask}), definition(q, k, v, {.mask = mask}), type);
    }
    const auto q = swapped(), k = swapped(), v = swapped();
    const auto wide = at::arange(8 * 16).remainder(5).ne(0).view({8, 16});
    for (const auto& mask : {wide.slice(1, 0, 16, 2), wide.select(1, 1).unsqueeze(1).expand({8, 8})})
      expect_same(Outcome(q, k, v, {.mask = masks::allow(mask)}),
                  definition(q, k, v, {.mask = masks::allow(mask.contiguous())}), type);
  }
}

// pytorch #144858: one query against a cache saw the first key only.
TEST(AttentionOfAnyType, CausalIsLowerRightAgainstACache) {
  for (const auto type : kTypes) {
    for (const int64_t T : {1, 3, 8, 9}) {
      at::manual_seed(3);
      const auto q = random_tensor({2, 4, T, 8}, type), k = random_tensor({2, 2, 8, 8}, type),
                 v = random_tensor({2, 2, 8, 8}, type);
      const auto seen = at::ones({T, 8}, at::kBool).tril(8 - T), top_left = at::ones({T, 8}, at::kBool).tril();
      expect_same(Outcome(q, k, v, {.mask = masks::causal()}), definition(q, k, v, {.mask = masks::allow(seen)}), type);
      expect_same(Outcome(q, k, v, {.mask = masks::causal(masks::Align::top_left)}),
                  definition(q, k, v, {.mask = masks::allow(top_left)}), type);
    }
  }
}

// transformers #37574, mlx-lm PR #390: a cache rolled one step too early, or held one key too many.
TEST(AttentionOfAnyType, ASlidingWindowKeepsExactlyTheNewestKeys) {
  for (const auto type : kTypes) {
    at::manual_seed(4);
    const auto k = random_tensor({1, 1, 9, 4}, type), v = random_tensor({1, 1, 9, 4}, type);
    for (const int64_t S : {6, 7, 8, 9}) {  // six keys of a prompt, then three single steps
      const auto q = random_tensor({1, 1, 1, 4}, type), keys = k.slice(2, 0, S), values = v.slice(2, 0, S);
      const int64_t first = std::max<int64_t>(0, S - 8);
      const auto weights = attention_detailed(q, keys, values, {.mask = masks::sliding_window(8)}).weights.flatten();
      EXPECT_TRUE(at::equal(weights.gt(0), at::arange(S).ge(first))) << S;
      expect_near(
          attention(q, keys, values, {.mask = masks::sliding_window(8)}),
          attention(q.to(at::kDouble), keys.slice(2, first).to(at::kDouble), values.slice(2, first).to(at::kDouble)),
          type, "output");
    }
  }
}

// A key that no query sees may hold anything: not one number of the result or of a gradient moves.
TEST(AttentionOfAnyType, PoisonInPaddingReachesNothing) {
  for (const auto type : kTypes) {
    for (const double poison : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      at::manual_seed(5);
      const auto q = random_tensor({2, 4, 5, 8}, type), k = random_tensor({2, 2, 7, 8}, type),
                 v = random_tensor({2, 2, 7, 8}, type);
      const auto start = at::tensor({0, 2}, at::kLong), lengths = at::tensor({4, 5}, at::kLong);
      auto bad_k = k.clone(), bad_v = v.clone();
      for (auto* bad : {&bad_k, &bad_v}) (*bad)[0].slice(1, 4).fill_(poison), (*bad)[1].slice(1, 0, 2).fill_(poison);
      for (const Mask& mask :
           {masks::padding(start, lengths), masks::padding(start, lengths) & masks::sliding_window(5, 2)}) {
        const AttentionOptions options{.mask = mask};
        expect_same(Outcome(q, bad_k, bad_v, options), definition(q, k, v, options), type);
        const AttentionOptions biased{.mask = mask, .score = scores::slopes(at::full({4}, 0.25)), .soft_cap = 3};
        expect_same(Outcome(q, bad_k, bad_v, biased), definition(q, k, v, biased), type);
      }
    }
  }
}

// pytorch #103749: a row that allows no key was NaN, forward or backward.
TEST(AttentionOfAnyType, ARowThatSeesNothingIsZeroForwardAndBackward) {
  for (const auto type : kTypes) {
    at::manual_seed(6);
    const auto q = random_tensor({1, 2, 6, 8}, type), k = random_tensor({1, 2, 10, 8}, type),
               v = random_tensor({1, 2, 10, 8}, type);
    const auto allowed = at::ones({6, 10}, at::kBool).tril();
    allowed[5].fill_(false);
    const Outcome run(q, k, v, {.mask = masks::allow(allowed)});
    expect_same(run, definition(q, k, v, {.mask = masks::allow(allowed)}), type);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(run.results[i].select(2, 5).eq(0).all().item<bool>()) << i;
    const Outcome nothing(q, k, v, {.mask = ~masks::full()});
    for (const auto& result : nothing.results) EXPECT_TRUE(result.eq(0).all().item<bool>());
  }
}

TEST(AttentionOfAnyType, EmptySizesHaveTheRightShape) {
  for (const auto type : kTypes) {
    for (const auto& [B, T, S] : {std::tuple{0, 3, 4}, {2, 0, 4}, {2, 3, 0}, {0, 0, 0}, {1, 1, 1}}) {
      const auto q = random_tensor({B, 4, T, 8}, type), k = random_tensor({B, 2, S, 8}, type),
                 v = random_tensor({B, 2, S, 8}, type);
      for (const Mask& mask : {Mask(), masks::causal(), ~masks::full()}) {
        const Outcome run(q, k, v, {.mask = mask});
        EXPECT_EQ(run.results[0].sizes(), (std::vector<int64_t>{B, 4, T, 8}));
        EXPECT_TRUE(S > 0 || run.results[0].eq(0).all().item<bool>());
        for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(run.results[i].isfinite().all().item<bool>());
      }
    }
  }
}

// flash-attention #1537: a packed call whose longest query is 1, with an empty sequence, raised a shape error.
TEST(AttentionOfAnyType, PackedSequencesNeverSeeEachOther) {
  for (const auto type : kTypes) {
    at::manual_seed(7);
    const auto q = random_tensor({2, 9, 64}, type), k = random_tensor({8, 3, 64}, type),
               v = random_tensor({8, 3, 64}, type);
    const auto q_offsets = at::tensor({0, 1, 1, 2}, at::kInt), k_offsets = at::tensor({0, 3, 3, 8}, at::kInt);
    const auto out = attention_packed(q, k, v, q_offsets, k_offsets, {.mask = masks::causal()});
    const auto alone = [&](int64_t row, int64_t from, int64_t to) {
      const auto heads = [](const Tensor& x) { return x.to(at::kDouble).transpose(0, 1).unsqueeze(0); };
      return attention(heads(q.narrow(0, row, 1)), heads(k.slice(0, from, to)), heads(v.slice(0, from, to)))[0]
          .transpose(0, 1);
    };
    expect_near(out, at::cat({alone(0, 0, 3), alone(1, 3, 8)}), type, "output");
    auto bad_k = k.clone(), bad_v = v.clone();
    bad_k.slice(0, 0, 3).fill_(NAN), bad_v.slice(0, 0, 3).fill_(INFINITY);
    const auto other = attention_packed(q, bad_k, bad_v, q_offsets, k_offsets, {.mask = masks::causal()});
    EXPECT_TRUE(other[0].isnan().all().item<bool>());
    EXPECT_TRUE(at::equal(other[1], out[1]));
    EXPECT_EQ(attention_packed(q.slice(0, 0, 0), k.slice(0, 0, 0), v.slice(0, 0, 0), at::tensor({0}), at::tensor({0}))
                  .sizes(),
              (std::vector<int64_t>{0, 9, 64}));
    // Queries without keys see nothing.
    const auto lonely = attention_packed(q, k, v, at::tensor({0, 1, 2}), at::tensor({0, 8, 8}));
    EXPECT_TRUE(lonely[1].eq(0).all().item<bool>());
  }
}

// pytorch #160064: asking for weights turned a finite output into NaN.
TEST(AttentionOfAnyType, WeightsOnRequestChangeRoundingAtMost) {
  for (const auto type : kTypes) {
    at::manual_seed(8);
    const auto x = random_tensor({1, 3, 5, 4}, type);
    const auto allowed = at::ones({3, 5, 5}, at::kBool);
    allowed[1].fill_(false);
    const AttentionOptions options{.mask = masks::allow(allowed)};
    const auto detailed = attention_detailed(x, x, x, options);
    expect_near(attention(x, x, x, options), detailed.output, type, "output");
    EXPECT_TRUE(detailed.weights[0][1].eq(0).all().item<bool>());
  }
}

// line/lighthouse #77: masks of [batch · heads, T, S] were laid out heads first. Such a mask has no place here.
TEST(AttentionOfAnyType, AMaskOfBatchTimesHeadsIsRefused) {
  const auto x = at::zeros({2, 2, 3, 4});
  EXPECT_THROW(attention(x, x, x, {.mask = masks::allow(at::ones({4, 3, 3}, at::kBool))}), Error);
  EXPECT_THROW(attention(x, x, x, {.score = scores::dense(at::zeros({4, 3, 3}))}), Error);
}

// What other languages send is a text and tensors: either may be anything.
TEST(AttentionOfAnyType, EncodedScoresOfAnyKindAreCheckedNotTrusted) {
  const auto x = at::zeros({1, 2, 3, 4});
  const std::vector<Tensor> tensors{at::zeros({}),        at::zeros({2}),    at::zeros({3, 2}),
                                    at::zeros({7, 2, 4}), at::zeros({0, 2}), {}};
  for (const std::string name : {"slopes", "dense", "relative", "bucket_table"}) {
    for (const char* numbers : {"", "1", "1,128", "0,-1", "-9,9,9"}) {
      for (size_t count = 0; count <= 3; ++count) {
        for (const Tensor& tensor : tensors) {
          const std::vector<Tensor> data(count, tensor);
          const std::string text = name + "(" + numbers + ";" + std::to_string(count) + ")";
          try {
            attention(x, x, x, {.score = Score::decode(text, data)});
          } catch (const Error&) {  // anything else, and a crash, is a fault
          }
        }
      }
    }
  }
  EXPECT_THROW(Score::decode("slopes(;0)", {}), Error);
  EXPECT_THROW(attention(x, x, x, {.score = scores::relative(at::zeros({3, 4}), at::zeros({1, 4}))}), Error);
}

TEST(AttentionOfAnyType, EncodedMasksOfAnyKindAreCheckedNotTrusted) {
  const auto x = at::zeros({1, 2, 3, 4});
  const std::vector<Tensor> tensors{at::zeros({}),
                                    at::zeros({}, at::kBool),
                                    at::zeros({1}, at::kLong),
                                    at::full({1}, 9, at::kLong),
                                    at::zeros({3}),
                                    at::zeros({3}, at::kBool),
                                    at::zeros({3}, at::kLong),
                                    at::zeros({1, 3}, at::kBool),
                                    at::zeros({0}),
                                    at::zeros({3, 3}, at::kBool),
                                    {}};
  for (const auto& [name, entry] : masks_registry().entries()) {
    for (const char* numbers :
         {"", "0", "2", "-1", "1,1", "9223372036854775807", "9223372036854775807,9223372036854775807"}) {
      for (size_t count = 0; count <= 3; ++count) {
        for (const Tensor& tensor : tensors) {
          const std::vector<Tensor> data(count, tensor);
          const std::string text = name + "(" + numbers + ";" + std::to_string(count) + ")";
          try {
            attention(x, x, x, {.mask = Mask::decode(text, data)});
          } catch (const Error&) {
          }
        }
      }
    }
  }
}

TEST(AttentionOfAnyType, TwoDevicesAreNamed) {
  const auto x = at::zeros({1, 1, 2, 4});
  try {
    attention(x, x.to(at::kMeta), x);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "attention: query, key and value are on cpu, meta and cpu; all must be on one device");
  }
}

TEST(AttentionOfAnyType, RepeatsBitForBit) {
  for (const auto type : kTypes) {
    at::manual_seed(9);
    const auto q = random_tensor({2, 4, 33, 16}, type), k = random_tensor({2, 2, 40, 16}, type),
               v = random_tensor({2, 2, 40, 16}, type);
    const AttentionOptions options{.mask = masks::causal(), .dropout = 0.1, .dropout_seed = 3};
    const Outcome first(q, k, v, options), second(q, k, v, options);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(first.results[i], second.results[i])) << i;
  }
}

TEST(AttentionOfAnyType, DroppedWeightsDoNotDependOnThreads) {
  const int threads = at::get_num_threads();
  for (const auto type : kTypes) {
    // Equal scores and unit values: the output is the kept weights, each exact whatever the order of sums.
    const auto q = at::zeros({2, 3, 40, 64}, type), v = at::eye(64, type).expand({2, 3, 64, 64}),
               k = at::zeros({2, 3, 64, 64}, type);
    std::vector<Tensor> outputs;
    for (const int n : {1, 2, 3}) {
      at::set_num_threads(n);
      outputs.push_back(attention(q, k, v, {.dropout = 0.5, .dropout_seed = 11}));
    }
    for (const auto& output : outputs) EXPECT_TRUE(at::equal(output, outputs[0]));
    EXPECT_NEAR(outputs[0].gt(0).to(at::kDouble).mean().item<double>(), 0.5, 0.02);
  }
  at::set_num_threads(threads);
}

// More than 2³¹ scores in one head. The last rows and the first are compared with a call of their own.
TEST(AttentionOfAnyType, IndicesAre64Bit) {
  if (std::getenv("FOVEA_FULL") == nullptr) GTEST_SKIP() << "takes a minute; FOVEA_FULL=1";
  constexpr int64_t kMany = 46500;
  at::manual_seed(10);
  const auto q = at::randn({1, 1, kMany, 8}), k = at::randn({1, 1, kMany, 8}), v = at::randn({1, 1, kMany, 8});
  const auto out = attention(q, k, v);
  const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
  for (const int64_t row : {int64_t{0}, kMany - 3})
    expect_near(out.narrow(2, row, 3), attention(wide(q.narrow(2, row, 3)), wide(k), wide(v)), at::kFloat, "rows");
}

}  // namespace
}  // namespace fovea
