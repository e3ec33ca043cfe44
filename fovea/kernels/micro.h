// The loops of isa.h, written once over a vector type (decoding's: micro_decode.h). Included by the files of isa/ only,
// each compiled with its own flags; all names are local to the file, so that the linker cannot mix one instruction
// set's code into another's.
//
// A vector type `V` is Lanes<n> below, written in the compiler's own vectors, with what an instruction set does better
// replaced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "fovea/kernels/isa.h"

namespace fovea {
namespace {

// Vectors of n lanes: numbers, their bits, half as wide, and the same at any address.
template <int n>
struct VectorTypes;
#define FOVEA_VECTOR_TYPES(n)                                                               \
  template <>                                                                               \
  struct VectorTypes<n> {                                                                   \
    typedef float F __attribute__((vector_size(n * 4)));                                    \
    typedef uint32_t U __attribute__((vector_size(n * 4)));                                 \
    typedef uint16_t H __attribute__((vector_size(n * 2)));                                 \
    typedef float Unaligned __attribute__((vector_size(n * 4), aligned(4), may_alias));     \
    typedef uint32_t UnalignedU __attribute__((vector_size(n * 4), aligned(2), may_alias)); \
    typedef uint16_t UnalignedH __attribute__((vector_size(n * 2), aligned(2), may_alias)); \
  };
FOVEA_VECTOR_TYPES(4)
FOVEA_VECTOR_TYPES(8)
FOVEA_VECTOR_TYPES(16)
#undef FOVEA_VECTOR_TYPES

template <int n>
struct Lanes : VectorTypes<n> {
  using F = typename VectorTypes<n>::F;
  using U = typename VectorTypes<n>::U;
  using H = typename VectorTypes<n>::H;
  using Unaligned = typename VectorTypes<n>::Unaligned;
  using UnalignedU = typename VectorTypes<n>::UnalignedU;
  using UnalignedH = typename VectorTypes<n>::UnalignedH;
  static constexpr int kLanes = n;
  static constexpr int kRows = 6;        // rows of a product's register tile: kRows × 2 sums, 2 loads, 1 broadcast
  static constexpr bool kPairs = false;  // products of bf16 are dot products of pairs

  static F load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(float* p, F x) { *reinterpret_cast<Unaligned*>(p) = x; }
  static F set(float x) { return x - F{}; }
  static U set(uint32_t x) { return x - U{}; }
  static U load(const Pair* p) { return *reinterpret_cast<const UnalignedU*>(p); }
  static void store(Pair* p, U x) { *reinterpret_cast<UnalignedU*>(p) = x; }
  static U set(Pair x) { return set(__builtin_bit_cast(uint32_t, x)); }
  static F multiply_add(F sum, F a, F b) { return sum + a * b; }
  static F multiply_add(F sum, U a, U b) {  // of pairs
    return sum + F(a << 16) * F(b << 16) + F(a & 0xffff0000u) * F(b & 0xffff0000u);
  }
  // a where a > b, else b: a NaN in a is dropped, one in b stays.
  static F max(F a, F b) { return a > b ? a : b; }
  static F load_bf16(const uint16_t* p) {
    return F(__builtin_convertvector(*reinterpret_cast<const UnalignedH*>(p), U) << 16);
  }
  static U rounded(F x) {  // to bf16, to nearest, ties to even
    const U bits = U(x);
    const U nan = (bits >> 16) | 0x40;
    return x == x ? (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 : nan;
  }
  static void store_bf16(uint16_t* p, F x) {
    *reinterpret_cast<UnalignedH*>(p) = __builtin_convertvector(rounded(x), H);
  }
  static U pairs(F even, F odd) { return rounded(even) | rounded(odd) << 16; }
  // The halves of the 64-bit product with a constant.
  static void multiply(U a, uint32_t b, U& high, U& low) {
    for (int i = 0; i < n; ++i) {
      const uint64_t product = uint64_t(a[i]) * b;
      high[i] = uint32_t(product >> 32), low[i] = uint32_t(product);
    }
  }
};

template <class V>
struct Loops {
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::kLanes, R = V::kRows;
  static constexpr float kLog2E = 1.44269504f, kInfinity = __builtin_inff();
  static_assert(kTileQueries % W == 0);

  static int64_t whole(int64_t n) { return (n + W - 1) / W * W; }

  // ---- Products ----------------------------------------------------------------------------------------------------

  // A register tile: `rows` × `vectors` sums.
  template <int rows, int vectors, bool rows_adjacent, class T>
  [[gnu::always_inline]] static inline void register_tile(const ProductOf<T>& p, const T* a, const T* b, float* c) {
    F sums[rows][vectors] = {};
    for (int64_t i = 0; i < p.n; ++i) {
      decltype(V::load(b)) x[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) x[v] = V::load(b + v * W);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const auto s = V::set(a[rows_adjacent ? r : r * p.row]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[r][v] = V::multiply_add(sums[r][v], s, x[v]);
      }
      a += rows_adjacent ? p.step : 1;
      b += p.b_row;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        float* to = c + r * p.c_row + v * W;
        if constexpr (!std::is_same_v<T, float>) sums[r][v] *= p.factor;
        V::store(to, p.add ? V::load(to) + sums[r][v] : sums[r][v]);
      }
    }
  }

  template <int rows, bool rows_adjacent, class T>
  static void panel(const ProductOf<T>& p, int64_t r) {
    const T* a = p.a + r * (rows_adjacent ? 1 : p.row);
    float* c = p.c + r * p.c_row;
    int64_t lane = 0;
    for (; lane + W < p.lanes; lane += 2 * W) register_tile<rows, 2, rows_adjacent>(p, a, p.b + lane, c + lane);
    if (lane < p.lanes) register_tile<rows, 1, rows_adjacent>(p, a, p.b + lane, c + lane);
  }

  template <int rows, bool rows_adjacent, class T>
  static void last_panel(const ProductOf<T>& p, int64_t r) {
    if constexpr (rows > 0) {
      if (p.rows - r == rows) return panel<rows, rows_adjacent>(p, r);
      last_panel<rows - 1, rows_adjacent>(p, r);
    }
  }

  template <bool rows_adjacent, class T>
  static void panels(const ProductOf<T>& p) {
    int64_t r = 0;
    for (; r + R <= p.rows; r += R) panel<R, rows_adjacent>(p, r);
    last_panel<R - 1, rows_adjacent>(p, r);
  }

  template <class T>
  static void product(const ProductOf<T>& p) {
    p.row == 1 ? panels<true>(p) : panels<false>(p);
  }

  // ---- Memory to tiles and back ------------------------------------------------------------------------------------

  static float to_float(const Matrix& m, int64_t i) {
    if (m.type == Number::kFloat) return static_cast<const float*>(m.data)[i];
    const uint32_t bits = uint32_t(static_cast<const uint16_t*>(m.data)[i]) << 16;
    float out;
    __builtin_memcpy(&out, &bits, 4);
    return out;
  }
  static void from_float(const Matrix& m, int64_t i, float x) {
    if (m.type == Number::kFloat) {
      static_cast<float*>(m.data)[i] = x;
      return;
    }
    uint16_t rounded[W];
    V::store_bf16(rounded, V::set(x));
    static_cast<uint16_t*>(m.data)[i] = rounded[0];
  }
  static F load(const Matrix& m, int64_t i) {
    return m.type == Number::kFloat ? V::load(static_cast<const float*>(m.data) + i)
                                    : V::load_bf16(static_cast<const uint16_t*>(m.data) + i);
  }
  static void store(const Matrix& m, int64_t i, F x) {
    if (m.type == Number::kFloat) {
      V::store(static_cast<float*>(m.data) + i, x);
    } else {
      V::store_bf16(static_cast<uint16_t*>(m.data) + i, x);
    }
  }

  static void pack(const Matrix& from, int64_t rows, int64_t width, float scale, float* to, int64_t pitch) {
    for (int64_t r = 0; r < rows; ++r, to += pitch) {
      int64_t i = 0;
      if (from.column == 1)
        for (; i + W <= width; i += W) V::store(to + i, load(from, r * from.row + i) * scale);
      for (; i < width; ++i) to[i] = to_float(from, r * from.row + i * from.column) * scale;
      for (; i < pitch; ++i) to[i] = 0;
    }
  }

  static void store_rows(const float* from, int64_t pitch, int64_t rows, int64_t width, const Matrix& to) {
    for (int64_t r = 0; r < rows; ++r, from += pitch) {
      int64_t i = 0;
      if (to.column == 1)
        for (; i + W <= width; i += W) store(to, r * to.row + i, V::load(from + i));
      for (; i < width; ++i) from_float(to, r * to.row + i * to.column, from[i]);
    }
  }

  static void pair_rows(const Matrix& from, int64_t rows, int64_t width, Pair* to, int64_t pitch) {
    for (int64_t r = 0; r < rows; r += 2, to += pitch) {
      const int64_t even = r * from.row, odd = even + from.row;
      const bool both = r + 1 < rows;
      int64_t i = 0;
      if (from.column == 1)
        for (; i + W <= width; i += W)
          V::store(to + i, V::pairs(load(from, even + i), both ? load(from, odd + i) : F{}));
      for (; i < width; ++i) {
        const int64_t at = i * from.column;
        const U pair = V::pairs(V::set(to_float(from, even + at)), V::set(both ? to_float(from, odd + at) : 0.0f));
        to[i] = __builtin_bit_cast(Pair, pair[0]);
      }
    }
  }

  // W × W numbers in W registers, in place: log2 W rounds, each of which interleaves the first half with the second.
  [[gnu::always_inline]] static inline void transpose_block(F* x) {
    U low, high;
    for (int i = 0; i < W; ++i) low[i] = uint32_t(i / 2 + (i % 2) * W), high[i] = low[i] + W / 2;
#pragma GCC unroll 4
    for (int round = 1; round < W; round *= 2) {
      F y[W];
#pragma GCC unroll 16
      for (int i = 0; i < W / 2; ++i) {
        y[2 * i] = __builtin_shuffle(x[i], x[i + W / 2], low);
        y[2 * i + 1] = __builtin_shuffle(x[i], x[i + W / 2], high);
      }
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) x[i] = y[i];
    }
  }

  static void transpose(const float* from, int64_t pitch, int64_t rows, int64_t width, float scale, float* tile) {
    for (int64_t q = 0; q < kTileQueries; q += W) {
      int64_t d = 0;
      for (; q + W <= rows && d + W <= width; d += W) {
        F x[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) x[i] = V::load(from + (q + i) * pitch + d) * scale;
        transpose_block(x);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) V::store(tile + (d + i) * kTileQueries + q, x[i]);
      }
      for (; d < width; ++d)
        for (int64_t i = q; i < q + W; ++i) tile[d * kTileQueries + i] = i < rows ? from[i * pitch + d] * scale : 0;
    }
  }

  static void store_transposed(const float* tile, const float* factor, int64_t rows, int64_t width, const Matrix& to) {
    for (int64_t q = 0; q < rows; q += W) {
      int64_t d = 0;
      for (; q + W <= rows && d + W <= width && to.column == 1; d += W) {
        F x[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) x[i] = V::load(tile + (d + i) * kTileQueries + q) * V::load(factor + q);
        transpose_block(x);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(to, (q + i) * to.row + d, x[i]);
      }
      for (; d < width; ++d)
        for (int64_t i = q; i < q + W && i < rows; ++i)
          from_float(to, i * to.row + d * to.column, tile[d * kTileQueries + i] * factor[i]);
    }
  }

  // x · 0 is 0 unless x is NaN or infinite.
  static bool finite(const float* from, int64_t count) {
    F sums = {};
    int64_t i = 0;
    for (; i + W <= count; i += W) sums += V::load(from + i) * 0.0f;
    float sum = 0;
    for (int lane = 0; lane < W; ++lane) sum += sums[lane];
    for (; i < count; ++i) sum += from[i] * 0.0f;
    return sum == 0;
  }

  // ---- Softmax -----------------------------------------------------------------------------------------------------

  // 2ˣ for x ≤ 127, within 1.5 ulp; 0 below −126.5; NaN for NaN. The sum with a large number rounds x to an integer,
  // whose bits it leaves ready to become an exponent; a polynomial of degree 5 (minimax on [−½, ½]) does the rest.
  [[gnu::always_inline]] static inline F exp2(F x) {
    const F magic = V::set(12582912.0f + 127.0f);  // 1.5 · 2²³, and the exponent's offset
    x = V::max(V::set(-127.0f), x);
    const F shifted = x + magic;
    const F r = x - (shifted - magic);
    F y = V::set(0x1.5bba10p-10f) * r + 0x1.3cea88p-7f;
    y = y * r + 0x1.c6b752p-5f;
    y = y * r + 0x1.ebf9bcp-3f;
    y = y * r + 0x1.62e42ap-1f;
    y = y * r + 1.0f;
    return y * F(U(shifted) << 23);
  }

  static void hide(float* scores, int64_t keys, const QueryBits* visible) {
    U lane;
    for (int i = 0; i < W; ++i) lane[i] = uint32_t(1) << i;
    for (int64_t k = 0; k < keys; ++k) {
      for (int64_t q = 0; q < kTileQueries; q += W) {
        float* s = scores + k * kTileQueries + q;
        const U bit = V::set(uint32_t(visible[k] >> q)) & lane;
        V::store(s, bit != 0 ? V::load(s) : V::set(-kInfinity));
      }
    }
  }

  // The generator of dropout.h, W counters at a time, in place.
  static void philox(uint64_t seed, U* c) {
    uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      U left_high, left_low, right_high, right_low;
      V::multiply(c[0], 0xD2511F53u, left_high, left_low);
      V::multiply(c[2], 0xCD9E8D57u, right_high, right_low);
      c[0] = right_high ^ c[1] ^ key0, c[1] = right_low;
      c[2] = left_high ^ c[3] ^ key1, c[3] = left_low;
      key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
  }
  // All bits where the word's decision number `turn` is to stay; threshold in 1 … 2³².
  static U stays(U word, int turn, uint64_t threshold) {
    const U turned = turn == 0 ? word : (word << (8 * turn)) | (word >> (32 - 8 * turn));
    return U(turned > uint32_t(threshold - 1));
  }

  // Decisions for W neighbouring queries and the 16 keys that k is one of.
  struct Keep {
    U word[4];
    Keep(const TileDropout& d, int64_t q, int64_t k) {
      U lane;
      for (int i = 0; i < W; ++i) lane[i] = uint32_t(i);
      word[0] = V::set(uint32_t(k >> 4)), word[1] = V::set(uint32_t(d.q0 + q)) + lane;
      word[2] = V::set(uint32_t(d.h)), word[3] = V::set(uint32_t(d.b));
      philox(d.seed, word);
    }
    // `kept` where key k stays, else 0.
    F factor(const TileDropout& d, int64_t k) const {
      return F(U(V::set(d.kept)) & stays(word[(k >> 2) & 3], int(k & 3), d.threshold));
    }
  };

  static bool any(U mask) {
    uint32_t out = 0;
    for (int i = 0; i < W; ++i) out |= mask[i];
    return out != 0;
  }

  static void rescale(int64_t q, F factor, SoftmaxState& state, float* output, int64_t width) {
    V::store(state.sum + q, V::load(state.sum + q) * factor);
    for (int64_t e = 0; e < width; ++e) {
      float* o = output + e * kTileQueries + q;
      V::store(o, V::load(o) * factor);
    }
  }

  static void softmax(float* scores, int64_t k0, int64_t keys, int64_t queries, const TileDropout& dropout,
                      SoftmaxState& state, float* output, int64_t width) {
    (state.rounded ? softmax_of<V::kPairs> : softmax_of<false>)(scores, k0, keys, queries, dropout, state, output,
                                                                width);
  }

  template <bool rounded>
  static void softmax_of(float* scores, int64_t k0, int64_t keys, int64_t queries, const TileDropout& dropout,
                         SoftmaxState& state, float* output, int64_t width) {
    const auto summand = [](F weight) {
      if constexpr (rounded) return F(V::rounded(weight) << 16);
      return weight;
    };
    for (int64_t q = 0; q < queries; q += W) {
      float* s = scores + q;
      F peak = V::load(state.peak + q);
      F top[4] = {peak, peak, peak, peak};
      int64_t k = 0;
      for (; k + 4 <= keys; k += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) top[i] = V::max(V::load(s + (k + i) * kTileQueries), top[i]);
      for (; k < keys; ++k) top[0] = V::max(V::load(s + k * kTileQueries), top[0]);
      top[0] = V::max(V::max(top[0], top[1]), V::max(top[2], top[3]));
      // Weights up to e^5 do no harm: the sums are rescaled only when a peak lags further behind.
      if (any(U(top[0] > peak + 5.0f))) {
        rescale(q, exp2((peak - top[0]) * kLog2E), state, output, width);
        peak = top[0];
        V::store(state.peak + q, peak);
      }
      F sums[4] = {};
      for (k = 0; k + 4 <= keys; k += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          float* at = s + (k + i) * kTileQueries;
          const F weight = exp2((V::load(at) - peak) * kLog2E);
          sums[i] += summand(weight);
          V::store(at, weight);
        }
      for (; k < keys; ++k) {
        const F weight = exp2((V::load(s + k * kTileQueries) - peak) * kLog2E);
        sums[0] += summand(weight);
        V::store(s + k * kTileQueries, weight);
      }
      V::store(state.sum + q, V::load(state.sum + q) + ((sums[0] + sums[1]) + (sums[2] + sums[3])));
      if (dropout.threshold == 0) continue;
      for (int64_t key = k0; key < k0 + keys;) {
        const Keep keep(dropout, q, key);
        do {
          float* at = s + (key - k0) * kTileQueries;
          V::store(at, V::load(at) * keep.factor(dropout, key));
        } while (++key % 16 != 0 && key < k0 + keys);
      }
    }
  }

  // weight = exp(score − log-sum-exp); d(score) = weight · (keep · d(weight) − delta).
  static void softmax_backward(float* scores, float* gradients, int64_t k0, int64_t keys, int64_t queries,
                               const TileDropout& dropout, const float* log_sum_exp, const float* delta) {
    for (int64_t q = 0; q < queries; q += W) {
      const F lse = V::load(log_sum_exp + q), d = V::load(delta + q);
      float* s = scores + q;
      float* g = gradients + q;
      if (dropout.threshold == 0) {
        for (int64_t k = 0; k < keys; ++k) {
          const int64_t at = k * kTileQueries;
          const F weight = exp2((V::load(s + at) - lse) * kLog2E);
          V::store(s + at, weight);
          V::store(g + at, weight * (V::load(g + at) - d));
        }
        continue;
      }
      for (int64_t key = k0; key < k0 + keys;) {
        const Keep keep(dropout, q, key);
        do {
          const int64_t at = (key - k0) * kTileQueries;
          const F weight = exp2((V::load(s + at) - lse) * kLog2E);
          const F factor = keep.factor(dropout, key);
          V::store(s + at, weight * factor);
          V::store(g + at, weight * (V::load(g + at) * factor - d));
        } while (++key % 16 != 0 && key < k0 + keys);
      }
    }
  }

  // tanh by e²ˣ, and near 0, where that loses digits, by its series (to x⁹, within 1e-8 below ¼).
  [[gnu::always_inline]] static inline F tanh(F x) {
    const F bounded = V::max(V::set(-10.0f), V::max(-x, V::set(-10.0f)) * -1.0f);
    const F e = exp2(bounded * (2 * kLog2E));
    const F square = x * x;
    F y = square * (62.0f / 2835) - (17.0f / 315);
    y = y * square + (2.0f / 15);
    y = y * square - (1.0f / 3);
    y = y * square * x + x;
    const F out = 1.0f - 2.0f / (e + 1.0f);
    return square < 0.0625f ? y : out;
  }

  static void soft_cap(float* scores, int64_t keys, float cap) {
    for (int64_t i = 0; i < keys * kTileQueries; i += W) V::store(scores + i, tanh(V::load(scores + i) / cap) * cap);
  }
  static void soft_cap_backward(float* gradients, const float* capped, int64_t keys, float cap) {
    for (int64_t i = 0; i < keys * kTileQueries; i += W) {
      const F t = V::load(capped + i) / cap;
      V::store(gradients + i, V::load(gradients + i) * (1.0f - t * t));
    }
  }
};

}  // namespace
}  // namespace fovea
