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

// [B, heads, rows, width] stored as [B, rows, heads, width, column], of which the last axis is a gap. Kernels see bf16
// numbers in `narrow`, the equations what those stand for in `data`.
struct Array {
  int64_t heads, rows, width, column;
  Number type;
  std::vector<float> data;
  std::vector<uint16_t> narrow;
  Array(int64_t b, int64_t h, int64_t r, int64_t w, int64_t column, Number type)
      : heads(h), rows(r), width(w), column(column), type(type), data(size_t(b * h * r * w * column)) {
    if (type == Number::kBFloat16) narrow.resize(data.size());
  }
  Heads of(int64_t b) {
    void* first = type == Number::kFloat ? static_cast<void*>(data.data()) : static_cast<void*>(narrow.data());
    const Matrix all{first, type, heads * width * column, column};
    return {all.at(b * rows * all.row), width * column};
  }
  size_t index(int64_t b, int64_t h, int64_t r, int64_t w) const {
    return size_t((((b * rows + r) * heads + h) * width + w) * column);
  }
  float& at(int64_t b, int64_t h, int64_t r, int64_t w) { return data[index(b, h, r, w)]; }
  void round() {
    const int64_t n = int64_t(narrow.size());
    all_isas().back()->store(data.data(), n, 1, n, {narrow.data(), type, n, 1});
    widen();
  }
  void widen() {
    const int64_t n = int64_t(narrow.size());
    all_isas().back()->pack({narrow.data(), type, n, 1}, 1, n, 1.0f, data.data(), n);
  }
};

// score += slope · (k mod 3) + 0.1 · q[0], with gradients for the slope and the query.
struct Tilt : ScoreVisitor {
  float slope;
  int64_t D;
  Tilt(float slope, int64_t D) : slope(slope), D(D) {}
  void forward(const ScoreTile& t) const override {
    for (int64_t k = 0; k < t.keys; ++k)
      for (int64_t q = 0; q < t.queries; ++q)
        t.values[k * t.stride + q] += slope * float((t.k0 + k) % 3) + 0.1f * t.query[q * D];
  }
  void backward(const ScoreTile& t, const ScoreTile&, float* const* own) const override {
    for (int64_t k = 0; k < t.keys; ++k)
      for (int64_t q = 0; q < t.queries; ++q) {
        own[0][0] += t.values[k * t.stride + q] * float((t.k0 + k) % 3);
        t.query_gradient[q * D] += t.values[k * t.stride + q] * 0.1f;
      }
  }
  bool reads_query() const override { return true; }
};

struct Case {
  int64_t B = 1, H = 1, G = 1, T = 1, S = 1, D = 8, E = 8;
  double dropout = 0;
  float soft_cap = 0;
  MaskRulePtr mask = full_rule();
  float tilt = 0;  // the slope of a Tilt
  int64_t column = 1;
  Number type = Number::kFloat;
};

void in_threads(int64_t n, const std::function<void(int64_t)>& f) {
  std::vector<std::thread> others;
  for (int64_t i = 1; i < n; ++i) others.emplace_back(f, i);
  if (n > 0) f(0);
  for (auto& other : others) other.join();
}

struct Attempt {
  Case c;
  Array q, k, v, o, go, dq, dk, dv;
  std::vector<float> lse;
  TilePlans plans;
  Tilt tilt;
  float tilt_gradient = 0;

  explicit Attempt(const Case& x)
      : c(x),
        q(x.B, x.H, x.T, x.D, x.column, x.type),
        k(x.B, x.G, x.S, x.D, x.column, x.type),
        v(x.B, x.G, x.S, x.E, x.column, x.type),
        o(x.B, x.H, x.T, x.E, x.column, x.type),
        go(o),
        dq(q),
        dk(k),
        dv(v),
        lse(size_t(x.B * x.H * x.T)),
        plans(*x.mask, 0, x.B, x.H, x.T, x.S, in_threads),
        tilt(x.tilt, x.D) {
    std::mt19937 generator(11);
    std::normal_distribution<float> normal;
    for (Array* array : {&q, &k, &v, &go})
      for (float& number : array->data) number = normal(generator);
    round();
  }

  void round() {
    for (Array* array : {&q, &k, &v, &go})
      if (c.type == Number::kBFloat16) array->round();
  }
  bool run(const Isa& isa, int threads, bool gradients = true) {
    if (!attention_forward(task(isa, threads))) return false;
    if (gradients) attention_backward(task(isa, threads));
    for (Array* array : {&o, &dq, &dk, &dv})
      if (c.type == Number::kBFloat16) array->widen();
    return true;
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
    if (c.tilt != 0) {
      for (Sequence& s : out.sequences) s.visitors = {&tilt};
      out.learned = {{{&tilt_gradient, 1}}};
    }
    out.threads = threads;
    out.parallel = in_threads;
    out.isa = &isa;
    return out;
  }

  // In bf16 what the kernels round to 8 bits may be off by 2⁻⁸ of itself, and no sum by more than that makes of it:
  // results; weights before they are summed, meet values or output gradients; score gradients before they meet queries;
  // and the output that a query's delta is computed from.
  void expect_equations() {
    const double unit = c.type == Number::kFloat ? 0 : 0x1.02p-8;
    std::vector<double> want_q(dq.data.size()), want_k(dk.data.size()), want_v(dv.data.size());
    std::vector<double> off_q(dq.data.size()), off_k(dk.data.size()), off_v(dv.data.size());
    double want_tilt = 0, off_tilt = 0;
    const AttentionDropout dropout(c.dropout, 5);
    for (int64_t b = 0; b < c.B; ++b) {
      for (int64_t h = 0; h < c.H; ++h) {
        const int64_t g = h * c.G / c.H;
        for (int64_t i = 0; i < c.T; ++i) {
          std::vector<double> weight(size_t(c.S)), slope(size_t(c.S), 1), keep(size_t(c.S), 1);
          double peak = -kInf, sum = 0, delta = 0, off_delta = 0;
          for (int64_t j = 0; j < c.S; ++j) {
            double score = 0;
            for (int64_t d = 0; d < c.D; ++d) score += 0.3f * double(q.at(b, h, i, d)) * k.at(b, g, j, d);
            if (c.soft_cap > 0) {
              const double t = std::tanh(score / c.soft_cap);
              score = c.soft_cap * t, slope[size_t(j)] = 1 - t * t;
            }
            if (c.tilt != 0) score += c.tilt * double(j % 3) + double(0.1f) * q.at(b, h, i, 0);
            weight[size_t(j)] = c.mask->allowed(b, h, i, j) ? score : -kInf;
            peak = std::max(peak, weight[size_t(j)]);
          }
          for (double& w : weight) sum += w = w == -kInf ? 0 : std::exp(w - peak);
          const double lse_wanted = sum > 0 ? peak + std::log(sum) : -kInf;
          if (sum > 0) {
            ASSERT_NEAR(lse[size_t((b * c.H + h) * c.T + i)], lse_wanted, 5e-6 + unit);
          } else {
            ASSERT_EQ(lse[size_t((b * c.H + h) * c.T + i)], -kInf);
          }
          for (int64_t j = 0; j < c.S; ++j) {
            if (sum > 0) weight[size_t(j)] /= sum;
            if (c.dropout > 0) keep[size_t(j)] = dropout.kept(b, h, i, j) ? 1 / (1 - c.dropout) : 0;
          }
          for (int64_t e = 0; e < c.E; ++e) {
            double x = 0, size = 0;
            for (int64_t j = 0; j < c.S; ++j) {
              const double term = weight[size_t(j)] * keep[size_t(j)] * v.at(b, g, j, e);
              x += term, size += std::abs(term);
            }
            const double off = unit * (2 * size + std::abs(x));
            ASSERT_NEAR(o.at(b, h, i, e), x, 5e-6 + off) << "b " << b << " h " << h << " i " << i << " e " << e;
            delta += x * go.at(b, h, i, e), off_delta += off * std::abs(go.at(b, h, i, e));
          }
          for (int64_t j = 0; j < c.S; ++j) {
            double dp = 0;
            for (int64_t e = 0; e < c.E; ++e) {
              dp += double(go.at(b, h, i, e)) * v.at(b, g, j, e);
              const double term = weight[size_t(j)] * keep[size_t(j)] * go.at(b, h, i, e);
              want_v[dv.index(b, g, j, e)] += term, off_v[dv.index(b, g, j, e)] += 2 * unit * std::abs(term);
            }
            const double to_score = weight[size_t(j)] * (dp * keep[size_t(j)] - delta);
            const double off = weight[size_t(j)] * off_delta + unit * std::abs(to_score),
                         factor = slope[size_t(j)] * 0.3f;
            for (int64_t d = 0; d < c.D; ++d) {
              const double off_product = (off + unit * std::abs(to_score)) * factor;
              want_q[dq.index(b, h, i, d)] += to_score * factor * k.at(b, g, j, d);
              want_k[dk.index(b, g, j, d)] += to_score * factor * q.at(b, h, i, d);
              off_q[dq.index(b, h, i, d)] += off_product * std::abs(k.at(b, g, j, d));
              off_k[dk.index(b, g, j, d)] += off_product * std::abs(q.at(b, h, i, d));
            }
            if (c.tilt == 0) continue;
            want_q[dq.index(b, h, i, 0)] += to_score * 0.1f, off_q[dq.index(b, h, i, 0)] += off * 0.1f;
            want_tilt += to_score * double(j % 3), off_tilt += off * double(j % 3);
          }
        }
      }
    }
    const auto expect = [unit](const std::vector<float>& have, const std::vector<double>& want,
                               const std::vector<double>& off, const char* what) {
      for (size_t i = 0; i < have.size(); ++i)
        ASSERT_NEAR(have[i], want[i], 2e-5 + off[i] + unit * std::abs(want[i])) << what << " " << i;
    };
    expect(dq.data, want_q, off_q, "query gradient");
    expect(dk.data, want_k, off_k, "key gradient");
    expect(dv.data, want_v, off_v, "value gradient");
    EXPECT_NEAR(tilt_gradient, want_tilt, 1e-4 + off_tilt);
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
  // Keys that all queries of a tile see, from an odd one to an even one.
  const auto inside = mask_of([](int64_t, int64_t, int64_t, int64_t k) { return k >= 65 && k < 95; });
  // Far keys that the first five queries alone see.
  const auto ahead = mask_of([](int64_t, int64_t, int64_t q, int64_t k) { return q < 5 || std::abs(q - k) < 9; });
  std::vector<Case> out{
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
      {.H = 1, .G = 1, .T = 43, .S = 101, .D = 6, .E = 8, .mask = inside},
      {.B = 2, .H = 2, .G = 1, .T = 43, .S = 101, .D = 5, .E = 8, .dropout = 0.2, .mask = causal(40), .tilt = 0.3f},
      {.H = 2, .G = 2, .T = 70, .S = 70, .D = 34, .E = 18, .soft_cap = 2, .mask = inside, .tilt = 0.2f, .column = 3},
      {.H = 2, .G = 1, .T = 70, .S = 199, .D = 12, .E = 9, .dropout = 0.2, .soft_cap = 2, .mask = ahead, .tilt = 0.2f},
  };
  for (size_t i = 0, n = out.size(); i < n; ++i) out.push_back(out[i]), out.back().type = Number::kBFloat16;
  return out;
}

TEST(AttentionKernel, ComputesTheEquations) {
  for (const Isa* isa : present()) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(std::string(isa->name) + ", T " + std::to_string(c.T) + ", S " + std::to_string(c.S) + ", D " +
                   std::to_string(c.D) + (c.type == Number::kFloat ? "" : ", bf16"));
      Attempt run(c);
      ASSERT_TRUE(run.run(*isa, 1));
      run.expect_equations();
    }
  }
}

TEST(AttentionKernel, ThreadsChangeNoBit) {
  for (const Isa* isa : present()) {
    for (const Case& c : cases()) {
      Attempt one(c), many(c);
      ASSERT_TRUE(one.run(*isa, 1) && many.run(*isa, 5));
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
    for (const auto& [T, type] : {std::pair{1, Number::kFloat}, {40, Number::kFloat}, {40, Number::kBFloat16}}) {
      const auto shaped = [&](int64_t S, MaskRulePtr mask) {
        return Attempt({.T = T, .S = S, .D = 8, .E = 8, .mask = mask, .type = type});
      };
      Attempt open = shaped(100, full_rule());
      open.v.at(0, 0, 70, 3) = NAN, open.round();
      ASSERT_TRUE(open.run(*isa, 1, false));
      for (int64_t i = 0; i < T; ++i)
        EXPECT_TRUE(std::isnan(open.o.at(0, 0, i, 3)) && !std::isnan(open.o.at(0, 0, i, 2)));
      open.k.at(0, 0, 20, 0) = NAN, open.round();
      ASSERT_TRUE(open.run(*isa, 1, false));
      for (const float x : open.o.data) EXPECT_TRUE(std::isnan(x));

      Attempt hidden = shaped(100, mask_of([](int64_t, int64_t, int64_t, int64_t k) { return k % 2 == 0; }));
      hidden.v.at(0, 0, 71, 3) = kInf, hidden.round();
      EXPECT_FALSE(hidden.run(*isa, 1, false));
      // A tile that nobody sees is never touched.
      Attempt far = shaped(200, mask_of([](int64_t, int64_t, int64_t, int64_t k) { return k < 64; }));
      far.k.at(0, 0, 150, 3) = NAN, far.round();
      EXPECT_TRUE(far.run(*isa, 1, false));
      for (const float x : far.o.data) EXPECT_TRUE(std::isfinite(x));
      // Nor are keys of a tile that nobody sees, but for what would make a pair with a visible one.
      for (const auto& [first, last, key] : {std::tuple{65, 68, 64}, {66, 68, 65}, {66, 68, 68}, {66, 69, 69}}) {
        Attempt near = shaped(100, mask_of([=, first = first, last = last](int64_t, int64_t, int64_t, int64_t k) {
                                return k >= first && k < last;
                              }));
        near.v.at(0, 0, key, 3) = NAN, near.round();
        const bool taken = near.run(*isa, 1, false), paired = type == Number::kBFloat16 && isa->product_pairs;
        EXPECT_EQ(taken, !paired || (first % 2 == 0 && last % 2 == 0)) << isa->name << ' ' << key;
        for (const float x : near.o.data) EXPECT_TRUE(!taken || std::isfinite(x)) << isa->name << ' ' << key;
      }
    }
  }
}

TEST(AttentionKernel, Bfloat16IsReadAndRounded) {
  // Four times nine numbers: more than any register holds, and a rest.
  const auto repeated = [](auto nine) {
    for (int i = 0; i < 27; ++i) nine.push_back(nine[size_t(i)]);
    return nine;
  };
  for (const Isa* isa : present()) {
    auto in = repeated(std::vector<uint16_t>{0x3f80, 0xc000, 0x7f80, 0x0080, 0x3eab, 0x4049, 0xbf81, 0x0000, 0x4120});
    std::vector<uint16_t> out(36, 7);
    std::vector<float> wide(36);
    isa->pack({in.data(), Number::kBFloat16, 36, 1}, 1, 36, 1.0f, wide.data(), 36);
    isa->store(wide.data(), 36, 1, 36, {out.data(), Number::kBFloat16, 36, 1});
    EXPECT_EQ(out, in) << isa->name;
    // To nearest, ties to even; NaN stays NaN.
    const auto between =
        repeated(std::vector<float>{0x1.01p0f, 0x1.03p0f, 0x1.018p0f, NAN, -0x1.01p0f, 0x1.01p0f, 1, 1, 0x1.03p0f});
    std::vector<uint16_t> rounded(36);
    isa->store(between.data(), 36, 1, 36, {rounded.data(), Number::kBFloat16, 36, 1});
    for (size_t i = 0; i < 36; i += 9) {
      EXPECT_EQ(wide[i], 1.0f) << isa->name;
      EXPECT_EQ(wide[i + 1], -2.0f) << isa->name;
      EXPECT_EQ(wide[i + 8], 10.0f) << isa->name;
      EXPECT_EQ(rounded[i], 0x3f80) << isa->name;
      EXPECT_EQ(rounded[i + 1], 0x3f82) << isa->name;
      EXPECT_EQ(rounded[i + 2], 0x3f81) << isa->name;
      EXPECT_EQ(rounded[i + 3] & 0x7fc0, 0x7fc0) << isa->name;
      EXPECT_EQ(rounded[i + 4], 0xbf80) << isa->name;
      EXPECT_EQ(rounded[i + 8], 0x3f82) << isa->name;
    }
  }
}

TEST(TilePlan, ListsWhatAMaskLeaves) {
  const auto window = mask_of([](int64_t, int64_t, int64_t q, int64_t k) { return k <= q && k > q - 10; });
  const TilePlans plans(*window, 0, 1, 1, 1000, 1000, in_threads);
  const TilePlanRows& rows = plans.at(0, 0);
  ASSERT_EQ(rows.size(), 32u);
  ASSERT_EQ(rows[0].steps().size(), 1u);
  EXPECT_EQ(rows[0].steps()[0].first, 0);
  EXPECT_EQ(rows[0].steps()[0].last, 32);
  ASSERT_EQ(rows[2].steps().size(), 2u);
  EXPECT_EQ(rows[2].steps()[0].first, 55);
  EXPECT_EQ(rows[2].steps()[1].tile, 1);
  EXPECT_EQ(rows[2].pairs_to_visit(), 9 * 9 + 32 * 32);
  EXPECT_EQ(rows[31].pairs_to_visit(), (9 + 8) * 8);
  const TilePlan all(*full_rule(), 0, 0, 32, 33, 65);
  ASSERT_EQ(all.steps().size(), 2u);
  EXPECT_EQ(all.steps()[0].bits, TilePlan::kFull);
  EXPECT_EQ(all.pairs_to_visit(), 65);
}

TEST(Dispatch, NamesWhatAProcessorLacks) {
  EXPECT_EQ(isa_lacks(*all_isas().back()), "");
  EXPECT_EQ(std::string(all_isas().back()->name), "scalar");
  EXPECT_TRUE(isa_lacks(isa()).empty());
}

}  // namespace
}  // namespace fovea
