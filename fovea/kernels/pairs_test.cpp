// Products of pairs of bf16, and what makes the pairs, on every instruction set that has them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <tuple>

#include "fovea/kernels/dispatch.h"

namespace fovea {
namespace {

std::vector<const Isa*> pairing_isas() {
  std::vector<const Isa*> out;
  for (const Isa* one : all_isas())
    if (one->product_pairs && isa_lacks(*one).empty()) out.push_back(one);
  return out;
}

float widened(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }

std::vector<Pair> random_pairs(int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  const auto number = [&] { return uint16_t(std::bit_cast<uint32_t>(normal(generator)) >> 16); };
  std::vector<Pair> out;
  for (int64_t i = 0; i < n; ++i) out.push_back({number(), number()});
  return out;
}

TEST(Pairs, AProductIsTheSumOfBothProducts) {
  for (const Isa* isa : pairing_isas()) {
    for (const auto& [rows, n, lanes] :
         {std::tuple{1, 1, 1}, {5, 3, 32}, {12, 32, 32}, {13, 17, 16}, {64, 9, 48}, {23, 0, 32}}) {
      for (const bool adjacent : {false, true}) {
        for (const bool add : {false, true}) {
          const int64_t pitch = 50, step = adjacent ? rows + 2 : 1, row = adjacent ? 1 : n + 2;
          const auto a = random_pairs((n + 2) * (rows + 2), 1), b = random_pairs((n + 1) * pitch + 16, 2);
          std::vector<float> c(size_t(rows * pitch + 16), 3.0f);
          isa->product_pairs({a.data(), step, row, rows, b.data(), pitch, lanes, c.data(), pitch, n, add, 0.5f});
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t lane = 0; lane < lanes; ++lane) {
              double want = add ? 3 : 0, size = std::abs(want);
              for (int64_t i = 0; i < n; ++i) {
                const Pair x = a[size_t(i * step + r * row)], y = b[size_t(i * pitch + lane)];
                const double even = 0.5 * widened(x.even) * widened(y.even),
                             odd = 0.5 * widened(x.odd) * widened(y.odd);
                want += even + odd, size += std::abs(even) + std::abs(odd);
              }
              // Products are exact in f32 and a sum of m terms is off by less than m · 2⁻²⁴ of their sizes.
              ASSERT_NEAR(c[size_t(r * pitch + lane)], want, double(2 * n + 2) * 0x1p-24 * size)
                  << isa->name << " rows " << rows << " n " << n << " row " << r << " lane " << lane;
            }
          }
        }
      }
    }
  }
}

TEST(Pairs, RowsAreJoinedAndRounded) {
  for (const Isa* isa : pairing_isas()) {
    for (const auto& [rows, width, column] : {std::tuple{1, 1, 1}, {2, 16, 1}, {3, 35, 1}, {7, 20, 2}, {64, 64, 1}}) {
      const int64_t from_row = width * column + 3, pitch = width + 2;
      const auto narrow = random_pairs(rows * from_row, 3);  // its even numbers alone: columns two apart
      std::vector<float> wide;
      for (const Pair& x : narrow) wide.push_back(widened(x.even) * 1.001f);
      std::vector<uint16_t> rounded(wide.size());
      const int64_t all = int64_t(wide.size());
      isa->store(wide.data(), all, 1, all, {rounded.data(), Number::kBFloat16, all, 1});
      for (const bool is_wide : {false, true}) {
        std::vector<Pair> to(size_t((rows + 1) / 2 * pitch), {7, 7});
        const Matrix from = is_wide
                                ? Matrix{wide.data(), Number::kFloat, from_row, column}
                                : Matrix{const_cast<Pair*>(narrow.data()), Number::kBFloat16, 2 * from_row, 2 * column};
        isa->pair_rows(from, rows, width, to.data(), pitch);
        const auto number = [&](int64_t r, int64_t i) -> uint16_t {
          if (r == rows) return 0;
          const auto at = size_t(r * from_row + i * column);
          return is_wide ? rounded[at] : narrow[at].even;
        };
        for (int64_t r = 0; r < rows; r += 2) {
          for (int64_t i = 0; i < width; ++i) {
            const Pair have = to[size_t(r / 2 * pitch + i)];
            ASSERT_EQ(have.even, number(r, i)) << isa->name << ' ' << r << ' ' << i;
            ASSERT_EQ(have.odd, number(r + 1, i)) << isa->name << ' ' << r << ' ' << i;
          }
          EXPECT_EQ(to[size_t(r / 2 * pitch + width)].odd, 7) << isa->name;
        }
      }
    }
  }
}

// Two whole registers of numbers halfway between two of bf16, and what is none.
TEST(Pairs, TiesGoToEvenAndNanStays) {
  for (const Isa* isa : pairing_isas()) {
    std::vector<float> from(64, 0x1.01p0f);
    std::fill(from.begin() + 32, from.end(), 0x1.03p0f);
    from[5] = NAN, from[40] = -INFINITY;
    std::vector<Pair> to(32);
    isa->pair_rows({from.data(), Number::kFloat, 32, 1}, 2, 32, to.data(), 32);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_TRUE(i == 5 ? std::isnan(widened(to[i].even)) : to[i].even == 0x3f80) << isa->name << ' ' << i;
      EXPECT_EQ(to[i].odd, i == 8 ? 0xff80 : 0x3f82) << isa->name << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace fovea
