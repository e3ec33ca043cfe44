// The kernels without LibTorch: every instruction set that this processor has, against the equations in f64.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "fovea/kernels/dispatch.h"
#include "fovea/kernels/dropout.h"

namespace fovea {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// [B, heads, rows, width] stored as [B, rows, heads, width].
struct Array {
  int64_t heads, rows, width;
  std::vector<float> data;
  Array(int64_t b, int64_t h, int64_t r, int64_t w) : heads(h), rows(r), width(w), data(size_t(b * h * r * w)) {}
  Heads of(int64_t b) { return {{data.data() + b * rows * heads * width, Number::kFloat, heads * width, 1}, width}; }
  float& at(int64_t b, int64_t h, int64_t r, int64_t w) {
    return data[size_t(((b * rows + r) * heads + h) * width + w)];
  }
};

struct Case {
  int64_t B = 1, H = 1, G = 1, T = 1, S = 1, D = 8, E = 8;
  double dropout = 0;
  float soft_cap = 0;
  MaskRulePtr mask = full_rule();
};

struct Attempt {
  Case c;
  Array q, k, v, o, go, dq, dk, dv;
  std::vector<float> lse;
  TilePlans plans;

  explicit Attempt(const Case& x)
      : c(x),
        q(x.B, x.H, x.T, x.D),
        k(x.B, x.G, x.S, x.D),
        v(x.B, x.G, x.S, x.E),
        o(x.B, x.H, x.T, x.E),
        go(o),
        dq(q),
        dk(k),
        dv(v),
        lse(size_t(x.B * x.H * x.T)),
        plans(*x.mask, 0, x.B, x.H, x.T, x.S) {
    std::mt19937 generator(11);
    std::normal_distribution<float> normal;
    for (Array* array : {&q, &k, &v, &go})
      for (float& number : array->data) number = normal(generator);
  }

  AttentionTask task(const Isa& isa, int threads) {
    AttentionTask out{.H = c.H,
                      .G = c.G,
                      .D = c.D,
                      .E = c.E,
                      .scale = 0.3f,
                      .soft_cap = c.soft_cap,
                      .dropout = c.dropout,
                      .dropout_seed = 5};
    for (int64_t b = 0; b < c.B; ++b)
      out.sequences.push_back({.batch = b,
                               .T = c.T,
                               .S = c.S,
                               .query = q.of(b),
                               .key = k.of(b),
                               .value = v.of(b),
                               .output = o.of(b),
                               .log_sum_exp = lse.data() + b * c.H * c.T,
                               .plans = &plans,
                               .plan = b,
                               .output_gradient = go.of(b),
                               .query_gradient = dq.of(b),
                               .key_gradient = dk.of(b),
                               .value_gradient = dv.of(b)});
    out.threads = threads;
    out.parallel = [](int64_t n, const std::function<void(int64_t)>& f) {
      std::vector<std::thread> others;
      for (int64_t i = 1; i < n; ++i) others.emplace_back(f, i);
      if (n > 0) f(0);
      for (auto& other : others) other.join();
    };
    out.isa = &isa;
    return out;
  }

  void expect_equations() {
    Array out(c.B, c.H, c.T, c.E);
    std::vector<double> want_q(dq.data.size()), want_k(dk.data.size()), want_v(dv.data.size());
    const auto index = [](const Array& a, int64_t b, int64_t h, int64_t r, int64_t w) {
      return size_t(((b * a.rows + r) * a.heads + h) * a.width + w);
    };
    const AttentionDropout dropout(c.dropout, 5);
    for (int64_t b = 0; b < c.B; ++b) {
      for (int64_t h = 0; h < c.H; ++h) {
        const int64_t g = h * c.G / c.H;
        for (int64_t i = 0; i < c.T; ++i) {
          std::vector<double> weight(size_t(c.S)), slope(size_t(c.S), 1), keep(size_t(c.S), 1);
          double peak = -kInf, sum = 0, delta = 0;
          for (int64_t j = 0; j < c.S; ++j) {
            double score = 0;
            for (int64_t d = 0; d < c.D; ++d) score += 0.3f * double(q.at(b, h, i, d)) * k.at(b, g, j, d);
            if (c.soft_cap > 0) {
              const double t = std::tanh(score / c.soft_cap);
              score = c.soft_cap * t, slope[size_t(j)] = 1 - t * t;
            }
            weight[size_t(j)] = c.mask->allowed(b, h, i, j) ? score : -kInf;
            peak = std::max(peak, weight[size_t(j)]);
          }
          for (double& w : weight) sum += w = w == -kInf ? 0 : std::exp(w - peak);
          const double lse_wanted = sum > 0 ? peak + std::log(sum) : -kInf;
          if (sum > 0) {
            ASSERT_NEAR(lse[size_t((b * c.H + h) * c.T + i)], lse_wanted, 5e-6);
          } else {
            ASSERT_EQ(lse[size_t((b * c.H + h) * c.T + i)], -kInf);
          }
          for (int64_t j = 0; j < c.S; ++j) {
            if (sum > 0) weight[size_t(j)] /= sum;
            if (c.dropout > 0) keep[size_t(j)] = dropout.kept(b, h, i, j) ? 1 / (1 - c.dropout) : 0;
          }
          for (int64_t e = 0; e < c.E; ++e) {
            double x = 0;
            for (int64_t j = 0; j < c.S; ++j) x += weight[size_t(j)] * keep[size_t(j)] * v.at(b, g, j, e);
            ASSERT_NEAR(o.at(b, h, i, e), x, 5e-6) << "b " << b << " h " << h << " i " << i << " e " << e;
            delta += x * go.at(b, h, i, e);
          }
          for (int64_t j = 0; j < c.S; ++j) {
            double dp = 0;
            for (int64_t e = 0; e < c.E; ++e) {
              dp += double(go.at(b, h, i, e)) * v.at(b, g, j, e);
              want_v[index(dv, b, g, j, e)] += weight[size_t(j)] * keep[size_t(j)] * go.at(b, h, i, e);
            }
            const double ds = weight[size_t(j)] * (dp * keep[size_t(j)] - delta) * slope[size_t(j)] * 0.3f;
            for (int64_t d = 0; d < c.D; ++d) {
              want_q[index(dq, b, h, i, d)] += ds * k.at(b, g, j, d);
              want_k[index(dk, b, g, j, d)] += ds * q.at(b, h, i, d);
            }
          }
        }
      }
    }
    const auto expect = [](const std::vector<float>& have, const std::vector<double>& want, const char* what) {
      for (size_t i = 0; i < have.size(); ++i) ASSERT_NEAR(have[i], want[i], 2e-5) << what << " " << i;
    };
    expect(dq.data, want_q, "query gradient");
    expect(dk.data, want_k, "key gradient");
    expect(dv.data, want_v, "value gradient");
  }
};

std::vector<const Isa*> present() {
  std::vector<const Isa*> out;
  for (const Isa* one : all_isas())
    if (isa_lacks(*one).empty()) out.push_back(one);
  return out;
}

template <class F>
MaskRulePtr mask_of(F f) {
  return std::make_shared<LambdaRule<F>>(f);
}

std::vector<Case> cases() {
  const auto causal = [](int64_t shift) {
    return mask_of([shift](int64_t, int64_t, int64_t q, int64_t k) { return k <= q + shift; });
  };
  const auto scattered = mask_of(
      [](int64_t b, int64_t h, int64_t q, int64_t k) { return (q * 7 + k * 3 + h + b) % 5 != 0 && q % 7 != 3; });
  return {
      {.T = 1, .S = 1},
      {.B = 2, .H = 4, .G = 2, .T = 37, .S = 70, .D = 20, .E = 12},
      {.B = 2, .H = 4, .G = 1, .T = 70, .S = 133, .D = 64, .E = 64, .mask = causal(63)},
      {.H = 2, .G = 2, .T = 33, .S = 65, .D = 3, .E = 1, .mask = scattered},
      {.B = 2, .H = 2, .G = 2, .T = 70, .S = 133, .D = 40, .E = 24, .dropout = 0.3, .mask = scattered},
      {.H = 2, .G = 1, .T = 40, .S = 50, .D = 16, .E = 17, .dropout = 0.1, .soft_cap = 2},
      {.H = 2, .G = 2, .T = 40, .S = 50, .D = 8, .E = 8, .dropout = 1},
      {.B = 2, .H = 8, .G = 2, .T = 1, .S = 533, .D = 64, .E = 64},  // decoding, cut into parts
      {.H = 4, .G = 2, .T = 3, .S = 130, .D = 40, .E = 72, .soft_cap = 3, .mask = causal(127)},  // decoding with a mask
      {.H = 2, .G = 2, .T = 2, .S = 100, .D = 9, .E = 5, .mask = scattered},
      {.H = 1, .G = 1, .T = 20, .S = 2000, .D = 16, .E = 16},  // a backward pass cut into parts
  };
}

TEST(AttentionKernel, ComputesTheEquations) {
  for (const Isa* isa : present()) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(std::string(isa->name) + ", T " + std::to_string(c.T) + ", S " + std::to_string(c.S) + ", D " +
                   std::to_string(c.D));
      Attempt run(c);
      ASSERT_TRUE(attention_forward(run.task(*isa, 1)));
      attention_backward(run.task(*isa, 1));
      run.expect_equations();
    }
  }
}

TEST(AttentionKernel, ThreadsChangeNoBit) {
  for (const Isa* isa : present()) {
    for (const Case& c : cases()) {
      Attempt one(c), many(c);
      attention_forward(one.task(*isa, 1)), attention_backward(one.task(*isa, 1));
      attention_forward(many.task(*isa, 5)), attention_backward(many.task(*isa, 5));
      EXPECT_EQ(one.o.data, many.o.data);
      EXPECT_EQ(one.dq.data, many.dq.data);
      EXPECT_EQ(one.dk.data, many.dk.data);
      EXPECT_EQ(one.dv.data, many.dv.data);
    }
  }
}

// Sums of one number each cannot hide an error of the exponential: scores from far below to far above the peak's lag.
TEST(AttentionKernel, PeakedScoresKeepTheirDigits) {
  for (const Isa* isa : present()) {
    Attempt run({.H = 1, .G = 1, .T = 32, .S = 128, .D = 8, .E = 8});
    for (float& x : run.q.data) x *= 12;
    attention_forward(run.task(*isa, 1)), attention_backward(run.task(*isa, 1));
    for (int64_t i = 0; i < 32; ++i) {
      std::vector<double> score(128);
      double peak = -kInf, sum = 0;
      for (int64_t j = 0; j < 128; ++j) {
        for (int64_t d = 0; d < 8; ++d) score[size_t(j)] += 0.3f * double(run.q.at(0, 0, i, d)) * run.k.at(0, 0, j, d);
        peak = std::max(peak, score[size_t(j)]);
      }
      for (double& s : score) sum += s = std::exp(s - peak);
      for (int64_t e = 0; e < 8; ++e) {
        double x = 0;
        for (int64_t j = 0; j < 128; ++j) x += score[size_t(j)] / sum * run.v.at(0, 0, j, e);
        EXPECT_NEAR(run.o.at(0, 0, i, e), x, 2e-5);
      }
    }
  }
}

TEST(AttentionKernel, AVisibleNanIsSeenAndAHiddenOneIsReported) {
  for (const Isa* isa : present()) {
    for (const int64_t T : {1, 40}) {
      Attempt open({.T = T, .S = 100, .D = 8, .E = 8});
      open.v.at(0, 0, 70, 3) = NAN;
      ASSERT_TRUE(attention_forward(open.task(*isa, 1)));
      for (int64_t i = 0; i < T; ++i)
        EXPECT_TRUE(std::isnan(open.o.at(0, 0, i, 3)) && !std::isnan(open.o.at(0, 0, i, 2)));
      open.k.at(0, 0, 20, 0) = NAN;
      ASSERT_TRUE(attention_forward(open.task(*isa, 1)));
      for (const float x : open.o.data) EXPECT_TRUE(std::isnan(x));

      Attempt hidden({.T = T, .S = 100, .D = 8, .E = 8, .mask = mask_of([](int64_t, int64_t, int64_t, int64_t k) {
                                                          return k % 2 == 0;
                                                        })});
      hidden.v.at(0, 0, 71, 3) = kInf;
      EXPECT_FALSE(attention_forward(hidden.task(*isa, 1)));
      // A tile that nobody sees is never touched.
      Attempt far({.T = T, .S = 200, .D = 8, .E = 8, .mask = mask_of([](int64_t, int64_t, int64_t, int64_t k) {
                                                       return k < 64;
                                                     })});
      far.k.at(0, 0, 150, 3) = NAN;
      EXPECT_TRUE(attention_forward(far.task(*isa, 1)));
      for (const float x : far.o.data) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

TEST(AttentionKernel, Bfloat16IsReadAndRounded) {
  for (const Isa* isa : present()) {
    std::vector<uint16_t> in{0x3f80, 0xc000, 0x7f80, 0x0001, 0x3eab, 0x4049, 0xbf81, 0x0000, 0x4120}, out(9, 7);
    std::vector<float> wide(9);
    isa->pack({in.data(), Number::kBFloat16, 9, 1}, 1, 9, 1.0f, wide.data(), 9);
    EXPECT_EQ(wide[0], 1.0f);
    EXPECT_EQ(wide[1], -2.0f);
    EXPECT_EQ(wide[8], 10.0f);
    isa->store(wide.data(), 9, 1, 9, {out.data(), Number::kBFloat16, 9, 1});
    EXPECT_EQ(out, in);
    // To nearest, ties to even; NaN stays NaN.
    std::vector<float> between{0x1.01p0f, 0x1.03p0f, 0x1.018p0f, NAN, -0x1.01p0f, 0x1.01p0f, 1, 1, 0x1.03p0f};
    isa->store(between.data(), 9, 1, 9, {out.data(), Number::kBFloat16, 9, 1});
    EXPECT_EQ(out[0], 0x3f80);
    EXPECT_EQ(out[1], 0x3f82);
    EXPECT_EQ(out[2], 0x3f81);
    EXPECT_EQ(out[3] & 0x7fc0, 0x7fc0);
    EXPECT_EQ(out[4], 0xbf80);
    EXPECT_EQ(out[8], 0x3f82);
  }
}

TEST(TilePlan, ListsWhatAMaskLeaves) {
  const auto window = mask_of([](int64_t, int64_t, int64_t q, int64_t k) { return k <= q && k > q - 10; });
  const TilePlan plan(*window, 0, 0, 100, 100);
  ASSERT_EQ(plan.query_tiles(), 4);
  ASSERT_EQ(plan.steps(0).size(), 1u);
  EXPECT_EQ(plan.steps(0)[0].first, 0);
  EXPECT_EQ(plan.steps(0)[0].last, 32);
  ASSERT_EQ(plan.steps(2).size(), 2u);
  EXPECT_EQ(plan.steps(2)[0].first, 55);
  EXPECT_EQ(plan.steps(2)[1].tile, 1);
  EXPECT_EQ(plan.keys_to_visit(2), 9 + 32);
  const TilePlan all(*full_rule(), 0, 0, 33, 65);
  EXPECT_FALSE(all.hides_something());
  EXPECT_EQ(all.keys_to_visit(1), 65);
}

TEST(Dispatch, NamesWhatAProcessorLacks) {
  EXPECT_EQ(isa_lacks(*all_isas().back()), "");
  EXPECT_EQ(std::string(all_isas().back()->name), "scalar");
  EXPECT_TRUE(isa_lacks(isa()).empty());
}

}  // namespace
}  // namespace fovea
