// The loops of decoding, and the table of all loops for a vector type. As in micro.h, all names are local to the file
// that includes this one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/kernels/micro_rows.h"

namespace fovea {
namespace {

template <class V>
struct DecodeLoops : RowLoops<V> {
  using Base = RowLoops<V>;
  using F = typename V::F;
  using Base::exp2, Base::to_float, Base::transpose_block, Base::whole;
  using Base::kInfinity, Base::kLog2E, Base::W;
  template <Number type>
  using Reader = typename Base::template Reader<type>;
  template <Number type>
  using Numbers = typename Base::template Numbers<type>;

  // W dot products at once: of `rows` queries with W / rows keys, k, k + run, k + 2 run …; behind the last key it is
  // read again and again. Keys apart are streams side by side, which keep memory busier than neighbours do.
  template <Number type, int rows, bool ask>
  [[gnu::always_inline]] static inline void dots(const DecodeBlock& b, int64_t r, int64_t k, int64_t run) {
    constexpr int keys = W / rows;
    constexpr int64_t line = 64 / int64_t(sizeof(Numbers<type>));
    const Reader<type> matrix(b.matrix), next(b.next.data ? b.next : b.matrix);
    const Numbers<type>*key[keys], *after[keys];
    for (int j = 0; j < keys; ++j) {
      const int64_t at = k + j * run < b.keys ? k + j * run : b.keys - 1;
      key[j] = matrix.at(at), after[j] = next.at(at);
    }
    F sums[W] = {};
    const float* query = b.query + r * b.width;
    const int64_t width = b.width;
    int64_t d = 0;
    for (; d + W <= width; d += W) {
      if (ask && d % line == 0)
#pragma GCC unroll 16
        for (int j = 0; j < keys; ++j) __builtin_prefetch(after[j] + d, 0, 2);
      F x[rows];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) x[i] = V::load(query + i * width + d);
#pragma GCC unroll 16
      for (int j = 0; j < keys; ++j) {
        const F y = Reader<type>::load(key[j] + d);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sums[i * keys + j] += x[i] * y;
      }
    }
    transpose_block(sums);
    F total = {};
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) total += sums[i];
    float out[W];
    V::store(out, total);
    for (; d < width; ++d)
      for (int i = 0; i < W; ++i) out[i] += query[i / keys * width + d] * Reader<type>::number(key[i % keys] + d);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < keys; ++j) b.scores[(r + i) * kTileKeys + k + j * run] = out[i * keys + j];
  }

  // The first rows ask for what will be read next.
  template <Number type, int rows>
  static void dots_of(const DecodeBlock& b, int64_t r) {
    constexpr int keys = W / rows;
    const int64_t run = (b.keys + keys - 1) / keys;
    for (int64_t k = 0; k < run; ++k)
      r == 0 ? dots<type, rows, true>(b, r, k, run) : dots<type, rows, false>(b, r, k, run);
  }

  template <Number type>
  static void scores_of(const DecodeBlock& b) {
    int64_t r = 0;
    for (; r + 4 <= b.rows; r += 4) dots_of<type, 4>(b, r);
    if (r + 2 <= b.rows) dots_of<type, 2>(b, r), r += 2;
    if (r < b.rows) dots_of<type, 1>(b, r);
  }
  static void decode_scores(const DecodeBlock& b) {
    b.matrix.type == Number::kFloat ? scores_of<Number::kFloat>(b) : scores_of<Number::kBFloat16>(b);
  }

  static float sum(F x) {
    float part[W], out = 0;
    V::store(part, x);
    for (int i = 0; i < W; ++i) out += part[i];
    return out;
  }

  static float decode_softmax(float* scores, int64_t keys, float& peak, float& total) {
    for (int64_t k = keys; k < whole(keys); ++k) scores[k] = -kInfinity;
    F tops = V::set(peak);
    for (int64_t k = 0; k < keys; k += W) tops = V::max(V::load(scores + k), tops);
    float top = peak;
    for (int i = 0; i < W; ++i) top = tops[i] > top ? tops[i] : top;
    const float factor = exp2(V::set((peak - top) * kLog2E))[0];
    peak = top;
    F sums = {};
    for (int64_t k = 0; k < keys; k += W) {
      const F weight = exp2((V::load(scores + k) - top) * kLog2E);
      V::store(scores + k, weight);
      sums += weight;
    }
    total = total * factor + sum(sums);
    return factor;
  }

  template <Number type, int rows, int vectors>
  [[gnu::always_inline]] static inline void weighted(const DecodeBlock& b, int64_t r, int64_t e) {
    const Reader<type> matrix(b.matrix);
    F sums[rows][vectors] = {};
    const float* weight = b.scores + r * kTileKeys;
    for (int64_t k = 0; k < b.keys; ++k) {
      const auto* row = matrix.at(k) + e;
      F w[rows];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) w[i] = V::set(weight[i * kTileKeys + k]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const F value = Reader<type>::load(row + v * W);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sums[i][v] += w[i] * value;
      }
    }
    for (int i = 0; i < rows; ++i) {
      for (int v = 0; v < vectors; ++v) {
        float* o = b.output + (r + i) * b.width + e + v * W;
        V::store(o, V::load(o) + sums[i][v]);
      }
    }
  }

  template <Number type, int rows>
  static void weighted_rows(const DecodeBlock& b, int64_t r) {
    constexpr int vectors = 8 / rows;  // eight sums: as many as additions are under way at once
    int64_t e = 0;
    for (; e + vectors * W <= b.width; e += vectors * W) weighted<type, rows, vectors>(b, r, e);
    for (; e + W <= b.width; e += W) weighted<type, rows, 1>(b, r, e);
    const Reader<type> matrix(b.matrix);
    for (; e < b.width; ++e) {
      for (int64_t i = r; i < r + rows; ++i) {
        float total = 0;
        for (int64_t k = 0; k < b.keys; ++k)
          total += b.scores[i * kTileKeys + k] * Reader<type>::number(matrix.at(k) + e);
        b.output[i * b.width + e] += total;
      }
    }
  }

  template <Number type>
  static void output_of(const DecodeBlock& b) {
    int64_t r = 0;
    for (; r + 4 <= b.rows; r += 4) weighted_rows<type, 4>(b, r);
    if (r + 2 <= b.rows) weighted_rows<type, 2>(b, r), r += 2;
    if (r < b.rows) weighted_rows<type, 1>(b, r);
  }
  static void decode_output(const DecodeBlock& b) {
    b.matrix.type == Number::kFloat ? output_of<Number::kFloat>(b) : output_of<Number::kBFloat16>(b);
  }

  // What there is no instruction for is no entry.
  static constexpr auto product_pairs() -> void (*)(const PairProduct&) {
    if constexpr (V::kPairs) return Base::template product<Pair>;
    return nullptr;
  }

  static constexpr Isa table(const char* name, const char* needs, const char* fast_on = "") {
    return {name,
            W,
            needs,
            fast_on,
            Base::template product<float>,
            product_pairs(),
            Base::pair_rows,
            Base::pack,
            Base::transpose,
            Base::store_transposed,
            Base::store_rows,
            Base::hide,
            Base::softmax,
            Base::softmax_backward,
            Base::soft_cap,
            Base::soft_cap_backward,
            Base::finite,
            Base::gelu,
            Base::gelu_backward,
            Base::norm,
            Base::norm_backward,
            Base::cross_entropy,
            Base::rotate,
            Base::skinny_linear,
            decode_scores,
            decode_softmax,
            decode_output};
  }
};

}  // namespace
}  // namespace fovea
