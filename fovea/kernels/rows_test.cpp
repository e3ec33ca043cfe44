// The loops over rows without LibTorch: every instruction set that this processor has, against the equations in f64.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "fovea/kernels/dispatch.h"
#include "fovea/kernels/dropout.h"

namespace fovea {
namespace {

const std::vector<int64_t> kWidths{1, 7, 8, 16, 33, 128, 300, 513};

std::vector<const Isa*> runnable_isas() {
  std::vector<const Isa*> out;
  for (const Isa* candidate : all_isas())
    if (isa_lacks(*candidate).empty()) out.push_back(candidate);
  return out;
}

// n zeros.
std::vector<float> room(int64_t n) { return std::vector<float>(static_cast<size_t>(n)); }

std::vector<float> draws(size_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(generator);
  return out;
}

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}
std::vector<uint16_t> narrowed(const std::vector<float>& x) {
  std::vector<uint16_t> out;
  for (float value : x) out.push_back(to_bf16(value));
  return out;
}

struct NormCase {
  int64_t rows, width;
  bool centred;
  double dropout;
};

// Value and gradient in f64; every array [rows, width].
struct NormReference {
  std::vector<double> sum, normed, x_gradient, added_gradient, weight_gradient, bias_gradient;

  NormReference(const NormCase& c, const std::vector<float>& x, const std::vector<float>& added,
                const std::vector<float>& weight, const std::vector<float>& bias,
                const std::vector<float>& normed_gradient, const std::vector<float>& sum_gradient, double eps,
                const RowsDropout& dropout)
      : sum(x.size()),
        normed(x.size()),
        x_gradient(x.size()),
        added_gradient(x.size()),
        weight_gradient(size_t(c.width)),
        bias_gradient(size_t(c.width)) {
    const double factor = c.dropout > 0 ? 1 / (1 - c.dropout) : 1, n = double(c.width);
    for (int64_t r = 0; r < c.rows; ++r) {
      const size_t at = size_t(r * c.width);
      const auto keeps = [&](size_t i) { return c.dropout == 0 || dropout.kept(r, int64_t(i)) ? factor : 0; };
      double mean = 0, squares = 0;
      for (size_t i = 0; i < size_t(c.width); ++i) mean += (sum[at + i] = x[at + i] + keeps(i) * added[at + i]) / n;
      if (!c.centred) mean = 0;
      for (size_t i = 0; i < size_t(c.width); ++i) squares += std::pow(sum[at + i] - mean, 2) / n;
      const double inverse = 1 / std::sqrt(squares + eps);
      double g_mean = 0, n_mean = 0;
      for (size_t i = 0; i < size_t(c.width); ++i) {
        const double unit = (sum[at + i] - mean) * inverse, d = normed_gradient[at + i];
        normed[at + i] = unit * weight[i] + bias[i];
        weight_gradient[i] += d * unit, bias_gradient[i] += d;
        g_mean += c.centred ? d * weight[i] / n : 0, n_mean += d * weight[i] * unit / n;
      }
      for (size_t i = 0; i < size_t(c.width); ++i) {
        const double unit = (sum[at + i] - mean) * inverse;
        x_gradient[at + i] =
            inverse * (normed_gradient[at + i] * weight[i] - g_mean - unit * n_mean) + sum_gradient[at + i];
        added_gradient[at + i] = x_gradient[at + i] * keeps(i);
      }
    }
  }
};

// Relative to the largest number of all.
void expect_near(const std::vector<float>& got, const std::vector<double>& wanted, double tolerance,
                 const std::string& what) {
  double largest = 1e-3, error = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    largest = std::max(largest, std::abs(wanted[i])), error = std::max(error, std::abs(got[i] - wanted[i]));
  EXPECT_LE(error / largest, tolerance) << what;
}

TEST(Rows, NormsAndTheirGradients) {
  for (const Isa* isa : runnable_isas()) {
    for (int64_t width : kWidths) {
      for (const bool centred : {true, false}) {
        for (const double p : {0.0, 0.3}) {
          if (width == 1 && centred) continue;  // always the bias: nothing to learn from rounding errors
          const NormCase c{5, width, centred, p};
          const std::string what = std::string(isa->name) + " width " + std::to_string(width) +
                                   (centred ? " layer" : " rms") + " p " + std::to_string(p);
          const size_t count = size_t(c.rows * width);
          const auto x = draws(count, 1), added = draws(count, 2), gradient = draws(count, 3),
                     through = draws(count, 4);
          const auto weight = draws(size_t(width), 5), bias = draws(size_t(width), 6);
          const RowsDropout dropout(p, 99);
          const NormReference wanted(c, x, added, weight, bias, gradient, through, 1e-5, dropout);
          const RowDropout drop{p > 0 ? dropout.threshold() : 0, 99, float(1 / (1 - p))};
          std::vector<float> sum(count), normed(count), mean(5), inverse(5), dx(count), da(count), dw = room(width),
                                                                                                   db = room(width);
          isa->norm({Number::kFloat, width, x.data(), added.data(), sum.data(), normed.data(), weight.data(),
                     bias.data(), mean.data(), inverse.data(), 1e-5f, centred, drop},
                    0, 5);
          expect_near(sum, wanted.sum, 2e-7, what + " sum");
          expect_near(normed, wanted.normed, 1e-5, what + " normed");
          isa->norm_backward({Number::kFloat, width, sum.data(), gradient.data(), through.data(), weight.data(),
                              mean.data(), inverse.data(), centred, dx.data(), da.data(), dw.data(), db.data(), drop},
                             0, 5);
          expect_near(dx, wanted.x_gradient, 1e-5, what + " d(x)");
          if (p > 0) expect_near(da, wanted.added_gradient, 1e-5, what + " d(added)");
          expect_near(dw, wanted.weight_gradient, 1e-5, what + " d(weight)");
          expect_near(db, wanted.bias_gradient, 1e-6, what + " d(bias)");
        }
      }
    }
  }
}

TEST(Rows, ANormOfHalfWidthRoundsOnce) {
  for (const Isa* isa : runnable_isas()) {
    for (int64_t width : {7, 64, 300}) {
      const size_t count = size_t(3 * width);
      const auto x = narrowed(draws(count, 1));
      std::vector<uint16_t> normed(count);
      std::vector<float> wide, mean(3), inverse(3), weight(static_cast<size_t>(width), 1.5f), expected(count);
      for (uint16_t value : x) wide.push_back(from_bf16(value));
      isa->norm({Number::kFloat,
                 width,
                 wide.data(),
                 nullptr,
                 nullptr,
                 expected.data(),
                 weight.data(),
                 nullptr,
                 mean.data(),
                 inverse.data(),
                 1e-5f,
                 true,
                 {}},
                0, 3);
      isa->norm({Number::kBFloat16,
                 width,
                 x.data(),
                 nullptr,
                 nullptr,
                 normed.data(),
                 weight.data(),
                 nullptr,
                 mean.data(),
                 inverse.data(),
                 1e-5f,
                 true,
                 {}},
                0, 3);
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(normed[i], to_bf16(expected[i])) << isa->name << ' ' << width << ' ' << i;
    }
  }
}

TEST(Rows, DroppedNaNIsZeroAndDroppedRowsAreTheSameEverywhere) {
  const int64_t width = 600;
  const RowsDropout dropout(0.5, 7);
  int64_t kept = 0;
  for (const Isa* isa : runnable_isas()) {
    std::vector<float> x(static_cast<size_t>(width), 1.0f), added(static_cast<size_t>(width), NAN),
        sum = room(width), normed = room(width), weight(static_cast<size_t>(width), 1.0f);
    for (int64_t c = 0; c < width; ++c)
      if (dropout.kept(0, c)) added[size_t(c)] = 3;
    float mean, inverse;
    isa->norm({Number::kFloat,
               width,
               x.data(),
               added.data(),
               sum.data(),
               normed.data(),
               weight.data(),
               nullptr,
               &mean,
               &inverse,
               1e-5f,
               true,
               {dropout.threshold(), 7, 2.0f}},
              0, 1);
    for (int64_t c = 0; c < width; ++c)
      EXPECT_EQ(sum[size_t(c)], dropout.kept(0, c) ? 7.0f : 1.0f) << isa->name << ' ' << c;
  }
  for (int64_t r = 0; r < 100; ++r)
    for (int64_t c = 0; c < width; ++c) kept += dropout.kept(r, c);
  EXPECT_NEAR(double(kept) / (100 * width), 0.5, 0.01);  // four deviations
}

TEST(Rows, CrossEntropyAndItsGradient) {
  for (const Isa* isa : runnable_isas()) {
    for (int64_t V : kWidths) {
      for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
        auto logits = draws(size_t(V), 8);
        for (float& x : logits) x *= 5;
        const int64_t label = V / 2;
        double sum = 0, all = 0;
        for (float x : logits) sum += std::exp(double(x)), all += x;
        const double loss = std::log(sum) - (1 - smoothing) * logits[size_t(label)] - smoothing / double(V) * all;
        std::vector<double> gradient;
        for (int64_t i = 0; i < V; ++i)
          gradient.push_back(std::exp(double(logits[size_t(i)])) / sum - smoothing / double(V) -
                             (i == label ? 1 - smoothing : 0));
        auto kept = logits;
        EXPECT_NEAR(isa->cross_entropy(kept.data(), V, label, smoothing, false), loss,
                    1e-5 * std::max(1.0, std::abs(loss)))
            << isa->name << ' ' << V;
        EXPECT_EQ(kept, logits);
        EXPECT_NEAR(isa->cross_entropy(logits.data(), V, label, smoothing, true), loss,
                    1e-5 * std::max(1.0, std::abs(loss)));
        for (int64_t i = 0; i < V; ++i)
          EXPECT_NEAR(logits[size_t(i)], gradient[size_t(i)], 2e-6) << isa->name << ' ' << V << ' ' << i;
      }
    }
    std::vector<float> poisoned(20, 1.0f);
    poisoned[13] = NAN;
    EXPECT_TRUE(std::isnan(isa->cross_entropy(poisoned.data(), 20, 3, 0, false))) << isa->name;
  }
}

TEST(Rows, RotationTurnsPairsAndBackAgain) {
  for (const Isa* isa : runnable_isas()) {
    for (int64_t turned : {2, 6, 16, 64, 80}) {
      for (const bool interleaved : {true, false}) {
        const int64_t width = turned + 3, rows = 3, pitch = width + 2;
        auto x = draws(size_t(rows * pitch), 3);
        std::vector<float> cosine = room(turned), sine = room(turned), y(x.size()), back(x.size());
        const auto places = [&](int64_t pair) {
          return interleaved ? std::pair{2 * pair, 2 * pair + 1} : std::pair{pair, pair + turned / 2};
        };
        for (int64_t pair = 0; pair < turned / 2; ++pair) {
          const auto [a, b] = places(pair);
          cosine[size_t(a)] = cosine[size_t(b)] = std::cos(float(pair + 1));
          sine[size_t(a)] = -std::sin(float(pair + 1)), sine[size_t(b)] = std::sin(float(pair + 1));
        }
        const Matrix from{x.data(), Number::kFloat, pitch, 1}, to{y.data(), Number::kFloat, pitch, 1},
            again{back.data(), Number::kFloat, pitch, 1};
        isa->rotate({from, to, rows, width, turned, cosine.data(), sine.data(), interleaved, false});
        isa->rotate({to, again, rows, width, turned, cosine.data(), sine.data(), interleaved, true});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t pair = 0; pair < turned / 2; ++pair) {
            const auto [a, b] = places(pair);
            const double angle = double(pair + 1), p = x[size_t(r * pitch + a)], q = x[size_t(r * pitch + b)];
            EXPECT_NEAR(y[size_t(r * pitch + a)], p * std::cos(angle) - q * std::sin(angle), 1e-5)
                << isa->name << ' ' << turned;
            EXPECT_NEAR(y[size_t(r * pitch + b)], p * std::sin(angle) + q * std::cos(angle), 1e-5);
          }
          for (int64_t i = 0; i < width; ++i) EXPECT_NEAR(back[size_t(r * pitch + i)], x[size_t(r * pitch + i)], 1e-5);
          for (int64_t i = turned; i < width; ++i) EXPECT_EQ(y[size_t(r * pitch + i)], x[size_t(r * pitch + i)]);
        }
      }
    }
  }
}

TEST(Rows, ALinearLayerOfFewRows) {
  for (const Isa* isa : runnable_isas()) {
    for (int64_t rows = 1; rows <= 8; ++rows) {
      for (int64_t width : {1, 9, 64, 130}) {
        for (int64_t outputs : {1, 2, 7, 12, 41}) {
          const auto x = draws(size_t(rows * width), 1), weight = draws(size_t(outputs * width), 2),
                     bias = draws(size_t(outputs), 3);
          auto narrow = narrowed(weight);
          for (const bool half : {false, true}) {
            std::vector<float> y(size_t(rows * (outputs + 1)), -1.0f);
            const Matrix stored{half ? (void*)narrow.data() : (void*)weight.data(),
                                half ? Number::kBFloat16 : Number::kFloat, width, 1};
            const SkinnyLinear call{x.data(), stored, half ? nullptr : bias.data(), y.data(), rows, width, outputs + 1};
            isa->skinny_linear(call, 0, outputs / 3);
            isa->skinny_linear(call, outputs / 3, outputs);
            for (int64_t m = 0; m < rows; ++m) {
              for (int64_t n = 0; n < outputs; ++n) {
                double wanted = half ? 0 : bias[size_t(n)];
                for (int64_t k = 0; k < width; ++k)
                  wanted += double(x[size_t(m * width + k)]) *
                            (half ? from_bf16(narrow[size_t(n * width + k)]) : weight[size_t(n * width + k)]);
                EXPECT_NEAR(y[size_t(m * (outputs + 1) + n)], wanted, 1e-5 * std::sqrt(double(width)) * 4)
                    << isa->name << ' ' << rows << ' ' << width << ' ' << outputs;
              }
              EXPECT_EQ(y[size_t(m * (outputs + 1) + outputs)], -1.0f);
            }
          }
        }
      }
    }
  }
}

// gelu(x) = x/2 · (1 + tanh u), u = √(2/π) · (x + 0.044715 x³) (Hendrycks & Gimpel 2016).
TEST(Rows, GeluAndItsGradient) {
  const double root = std::sqrt(2 / M_PI);
  for (const Isa* isa : runnable_isas()) {
    for (const int64_t count : kWidths) {
      auto x = draws(size_t(count), 11), gradient = draws(size_t(count), 12), y = room(count), dx = room(count);
      for (int64_t i = 0; i < count; i += 3) x[size_t(i)] *= 8;  // into both flat ends
      isa->gelu(x.data(), y.data(), count);
      isa->gelu_backward(x.data(), gradient.data(), dx.data(), count);
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i], t = std::tanh(root * (v + 0.044715 * v * v * v));
        const double slope = 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v);
        EXPECT_NEAR(y[i], 0.5 * v * (1 + t), 2e-6 * (1 + std::abs(v))) << isa->name << ' ' << v;
        EXPECT_NEAR(dx[i], gradient[i] * slope, 4e-6 * (1 + std::abs(gradient[i]))) << isa->name << ' ' << v;
      }
    }
  }
}

}  // namespace
}  // namespace fovea
