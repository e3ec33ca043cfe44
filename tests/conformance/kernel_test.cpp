// The kernels behind the public call, held against the definition in f64: the benchmark's list of cases, two thousand
// random calls, and what a kernel promises beyond numbers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <cmath>
#include <random>
#include <sstream>
#include <thread>

#include "benchmarks/attention_cases.h"
#include "fovea/base/error.h"
#include "fovea/masks/registry.h"
#include "fovea/scores/registry.h"

namespace fovea {
namespace {

// Output and gradients of query, key, value and the score's tensors.
std::vector<Tensor> outcome(Tensor q, Tensor k, Tensor v, const AttentionOptions& options, const Tensor& weight) {
  std::vector<Tensor> leaves{q, k, v};
  for (auto& leaf : leaves) leaf = leaf.detach().requires_grad_();
  for (const auto& term : options.score.terms())
    for (const Tensor& tensor : term->data)
      if (tensor.is_floating_point()) leaves.push_back(Tensor(tensor).requires_grad_());
  const Tensor out = attention(leaves[0], leaves[1], leaves[2], options);
  auto all = torch::autograd::grad({(out * weight.to(out.scalar_type())).sum()}, leaves, {}, std::nullopt, false,
                                   /*allow_unused=*/true);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = at::zeros_like(leaves[i]);
  all.insert(all.begin(), out.detach());
  return all;
}

// `weight`: the largest derivative of a score by a learned number.
void expect_definition(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options, double tolerance,
                       double weight = 1) {
  const auto upstream = at::randn({q.size(0), q.size(1), q.size(2), v.size(3)}, at::kDouble);
  options.path = AttentionPath::kernel;
  const auto have = outcome(q, k, v, options, upstream.to(q.scalar_type()));
  options.path = AttentionPath::reference;
  const auto want = outcome(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), options,
                            upstream.to(q.scalar_type()).to(at::kDouble));
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < have.size(); ++i) {
    const Tensor difference = (have[i].to(at::kDouble) - want[i].to(at::kDouble)).abs();
    if (difference.numel() == 0) continue;
    // A learned number's gradient sums many scores' gradients of both signs, each a difference of two sums over the
    // width: compared to what it sums, not to what is left.
    const double terms = double(q.size(0) * q.size(1) * q.size(2) * k.size(2) * v.size(3)) / double(have[i].numel());
    // Likewise a key's in bf16, where what is left depends on the output, which was rounded.
    const double key_terms = q.scalar_type() == at::kBFloat16 ? std::sqrt(double(q.size(2))) : 1.0;
    const double scale = want[i].abs().max().item<double>() + (i > 3    ? weight * std::sqrt(std::max(1.0, terms))
                                                               : i == 2 ? key_terms
                                                                        : 1.0);
    EXPECT_LE(difference.max().item<double>(), tolerance * scale) << "result " << i;
  }
}

TEST(Kernel, AnswersEveryCaseOfTheBenchmark) {
  for (const auto& c : bench::attention_cases()) {
    SCOPED_TRACE(c.name);
    AttentionShape s = c.shape;
    s.B = std::min<int64_t>(s.B, 2), s.H = 2 * (s.H / s.G), s.G = 2;
    while (s.T * s.S > 40000) s.T = (s.T + 1) / 2, s.S = (s.S + 1) / 2;
    at::manual_seed(4);
    for (const auto type : {at::kFloat, at::kBFloat16})
      expect_definition(bench::random_heads(s.B, s.H, s.T, s.D, type) * c.query_factor,
                        bench::random_heads(s.B, s.G, s.S, s.D, type), bench::random_heads(s.B, s.G, s.S, s.E, type),
                        {.mask = c.mask ? c.mask(s) : Mask(),
                         .score = c.score ? c.score(s) : Score(),
                         .dropout = c.dropout,
                         .dropout_seed = 9},
                        type == at::kFloat ? 2e-5 : 3e-2);
  }
}

class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : generator_(seed) { at::manual_seed(seed); }

  void run() {
    AttentionShape s{.B = draw(1, 3),
                     .G = draw(1, 3),
                     .T = pick({1, 2, 3, 5, 17, 31, 32, 33, 64, 65, 70}),
                     .S = pick({1, 2, 7, 31, 63, 64, 65, 96, 129, 150}),
                     .D = pick({1, 3, 8, 16, 20, 31, 32, 64, 80}),
                     .E = pick({1, 4, 7, 16, 24, 32, 64})};
    s.H = s.G * draw(1, 3);
    const auto type = draw(0, 4) == 0 ? at::kBFloat16 : at::kFloat;
    AttentionOptions options{
        .mask = mask(s), .score = score(s), .dropout = draw(0, 3) == 0 ? 0.25 : 0.0, .dropout_seed = draw(0, 1 << 30)};
    if (draw(0, 4) == 0) options.soft_cap = 1.5;
    if (draw(0, 4) == 0) options.scale = 0.7;
    std::vector<Tensor> data;
    const std::string added = options.score.encode(data);
    SCOPED_TRACE(detail_of(s, type) + ' ' + added);
    expect_definition(tensor(s.B, s.H, s.T, s.D, type), tensor(s.B, s.G, s.S, s.D, type),
                      tensor(s.B, s.G, s.S, s.E, type), options, type == at::kFloat ? 1e-4 : 4e-2,
                      added.starts_with("slopes") ? double(std::max(s.T, s.S)) : 1.0);  // distances
  }

 private:
  int64_t draw(int64_t from, int64_t to) { return from + int64_t(generator_() % uint64_t(to - from + 1)); }
  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[draw(0, int64_t(from.size()) - 1)]; }

  Tensor tensor(int64_t b, int64_t h, int64_t r, int64_t w, at::ScalarType type) {
    switch (draw(0, 4)) {
      case 0:
        return at::randn({b, h, r, w}).to(type);
      case 1:
        return at::randn({b, h, w, r}).to(type).transpose(2, 3);
      case 2:
        return at::randn({b, h, r, 2 * w}).to(type).slice(3, 0, 2 * w, 2);
      case 3:
        return at::randn({1, h, 1, w}).to(type).expand({b, h, r, w});
      default:
        return bench::random_heads(b, h, r, w, type);
    }
  }
  // A registered mask, or two of them joined.
  Mask mask(const AttentionShape& s) {
    const auto one = [&] {
      const auto names = masks_registry().names();
      const auto samples = masks_registry().at(names[size_t(draw(0, int64_t(names.size()) - 1))]).samples(s);
      return samples.empty() ? Mask() : samples[size_t(draw(0, int64_t(samples.size()) - 1))];
    };
    switch (draw(0, 5)) {
      case 0:
        return {};
      case 1:
        return one() & one();
      case 2:
        return one() | one();
      case 3:
        return ~one();
      default:
        return one();
    }
  }
  Score score(const AttentionShape& s) {
    if (draw(0, 1) == 0) return {};
    const auto names = scores_registry().names();
    const auto samples = scores_registry().at(names[size_t(draw(0, int64_t(names.size()) - 1))]).samples(s);
    return samples.empty() ? Score() : samples[size_t(draw(0, int64_t(samples.size()) - 1))];
  }
  static std::string detail_of(const AttentionShape& s, at::ScalarType type) {
    std::ostringstream out;
    out << "B " << s.B << " H " << s.H << " G " << s.G << " T " << s.T << " S " << s.S << " D " << s.D << " E " << s.E
        << ' ' << toString(type);
    return out.str();
  }

  std::mt19937_64 generator_;
};

// In four parts, so that workers share them.
class KernelRandom : public ::testing::TestWithParam<int> {};
TEST_P(KernelRandom, FiveHundredCallsEqualTheDefinition) {
  for (int i = 0; i < 500 && !HasFailure(); ++i) {
    const uint64_t seed = uint64_t(GetParam()) * 500 + uint64_t(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCall(seed).run();
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, KernelRandom, ::testing::Values(0, 1, 2, 3));

// Heads one after the other, as a cache has them, and all heads of a key side by side, as a projection writes them.
TEST(Kernel, DecodesHoweverHeadsLie) {
  at::manual_seed(8);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [T, S] : {std::pair<int64_t, int64_t>{1, 5}, {1, 1500}, {2, 1500}, {3, 700}}) {
      const auto q = bench::random_heads(2, 6, T, 24, type), k = bench::random_heads(2, 3, S, 24, type),
                 v = bench::random_heads(2, 3, S, 40, type);
      const Mask some = masks::allow(at::rand({2, 6, T, S}).gt(0.3));  // other keys for every head
      for (const Mask& mask : {Mask(), masks::padding(at::tensor({S, S / 2})), masks::causal(), some}) {
        SCOPED_TRACE(detail::concat(toString(type), " T ", T, " S ", S));
        expect_definition(q, k, v, {.mask = mask}, type == at::kFloat ? 1e-5 : 2e-2);
        expect_definition(q, k.contiguous(), v.contiguous(), {.mask = mask}, type == at::kFloat ? 1e-5 : 2e-2);
        expect_definition(q, k, v.contiguous(), {.mask = mask}, type == at::kFloat ? 1e-5 : 2e-2);
      }
    }
  }
}

TEST(Kernel, ThreadsChangeNoBitOfAnyGradient) {
  at::manual_seed(6);
  const int64_t B = 3, H = 4, T = 70, S = 300;
  const auto q = at::randn({B, H, T, 16}), k = at::randn({B, 2, S, 16}), v = at::randn({B, 2, S, 16}),
             weight = at::randn({B, H, T, 16});
  const std::vector<Score> scores{Score(),
                                  scores::bucket_table(at::randn({32, H}), true),
                                  scores::slopes(at::rand({H})),
                                  scores::dense(at::randn({H, T, S})),
                                  scores::dense(at::randn({1, 1, T, S})),
                                  scores::dense(at::randn({B, 1, 1, S}))};
  const int threads = at::get_num_threads();
  for (const auto& score : scores) {
    const AttentionOptions options{
        .mask = masks::causal(), .score = score, .dropout = 0.1, .dropout_seed = 2, .path = AttentionPath::kernel};
    at::set_num_threads(1);
    const auto one = outcome(q, k, v, options, weight);
    at::set_num_threads(5);
    const auto many = outcome(q, k, v, options, weight);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], many[i])) << i;
  }
  at::set_num_threads(threads);
}

TEST(Kernel, ManyThreadsMayCallAtOnce) {
  at::manual_seed(7);
  const auto q = at::randn({2, 4, 100, 32}), k = at::randn({2, 4, 100, 32}), v = at::randn({2, 4, 100, 32}),
             weight = at::randn({2, 4, 100, 32});
  const auto want = outcome(q, k, v, {.mask = masks::causal()}, weight);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto have = outcome(q, k, v, {.mask = masks::causal()}, weight);
        for (size_t j = 0; j < want.size(); ++j) wrong += !at::equal(have[j], want[j]);
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Kernel, PackedBatchesMayHoldEmptySequences) {
  at::manual_seed(8);
  const auto q = at::randn({5, 2, 8}), k = at::randn({9, 2, 8}), v = at::randn({9, 2, 8});
  const auto from = at::tensor({0, 0, 1, 1, 4, 5, 5}),
             key_from = at::tensor({0, 3, 3, 7, 9, 9, 9});  // none, no keys, both
  const auto run = [&](AttentionPath path) {
    return attention_packed(q, k, v, from, key_from, {.mask = masks::causal(), .path = path});
  };
  const auto have = run(AttentionPath::kernel), want = run(AttentionPath::reference);
  EXPECT_LE((have - want).abs().max().item<double>(), 1e-5);
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Kernel, SaysThatItHasNoSecondDerivatives) {
  const auto q = at::randn({1, 1, 4, 8}).requires_grad_();
  const auto twice = [&] {
    torch::autograd::grad({attention(q, q, q).sum()}, {q}, {}, std::nullopt, /*create_graph=*/true);
  };
  EXPECT_NE(error_of(twice).find("AttentionPath::reference"), std::string::npos);
}

TEST(Kernel, ARefusalIsAnErrorWhereTheKernelIsWanted) {
  const AttentionOptions kernel{.path = AttentionPath::kernel};
  const auto wide = at::randn({1, 1, 4, 8}, at::kDouble), half = at::randn({1, 1, 4, 8}).to(at::kHalf),
             big = at::randn({1, 1, 4, 513});
  EXPECT_NE(error_of([&] { attention(wide, wide, wide, kernel); }).find("no kernel for type Double"),
            std::string::npos);
  EXPECT_NE(error_of([&] { attention(half, half, half, kernel); }).find("no kernel for type Half"), std::string::npos);
  EXPECT_NE(error_of([&] { attention(big, big, big, kernel); }).find("wider than 512"), std::string::npos);
  auto k = at::randn({1, 1, 4, 8});
  k[0][0][3][0] = NAN;
  const auto q = at::randn({1, 1, 4, 8});
  EXPECT_NE(error_of([&] {
              attention(q, k, q, {.mask = masks::causal(), .path = AttentionPath::kernel});
            }).find("may hold NaN"),
            std::string::npos);
  EXPECT_FALSE(attention(q, k, q, {.mask = masks::causal()}).slice(2, 0, 3).isnan().any().item<bool>());
}

TEST(Kernel, AUsersRuleMayThrow) {
  const auto q = at::randn({2, 2, 40, 8});
  const auto angry = masks::rule([](int64_t, int64_t, int64_t q, int64_t k) -> bool {
    if (q == 35 && k == 7) throw Error(ErrorKind::kArgument, "no such pair");
    return true;
  });
  EXPECT_EQ(error_of([&] { attention(q, q, q, {.mask = angry}); }), "no such pair");
  const auto nan = scores::add([](int64_t, int64_t, int64_t q, int64_t) { return q == 3 ? NAN : 0.0f; });
  const auto out = attention(q, q, q, {.score = nan});
  EXPECT_TRUE(out.select(2, 3).isnan().all().item<bool>());
  EXPECT_FALSE(out.narrow(2, 4, 30).isnan().any().item<bool>());
}

}  // namespace
}  // namespace fovea
