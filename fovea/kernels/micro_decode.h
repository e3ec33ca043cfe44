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

  // W dot products at once: of `rows` queries with W / rows keys. Behind the last key it is read again and again.
  template <Number type, int rows>
  [[gnu::always_inline]] static inline void dots(const DecodeBlock& b, int64_t r, int64_t k) {
    constexpr int keys = W / rows;
    const Reader<type> matrix(b.matrix), next(b.next);
    const typename Reader<type>::T* key[keys];
    for (int j = 0; j < keys; ++j) key[j] = matrix.at(k + j < b.keys ? k + j : b.keys - 1);
    F sums[W] = {};
    const float* query = b.query + r * b.width;
    const int64_t width = b.width;
    int64_t d = 0;
    for (; d + W <= width; d += W) {
      F x[rows];
      for (int i = 0; i < rows; ++i) x[i] = V::load(query + i * width + d);
#pragma GCC unroll 16
      for (int j = 0; j < keys; ++j) {
        if (r == 0) next.ask_for(k + j, d);
        const F y = Reader<type>::load(key[j] + d);
#pragma GCC unroll 2
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
      __builtin_memcpy(b.scores + (r + i) * kTileKeys + k, out + i * keys, sizeof(float) * keys);
  }

  template <Number type>
  static void scores_of(const DecodeBlock& b) {
    int64_t r = 0;
    for (; r + 2 <= b.rows; r += 2)
      for (int64_t k = 0; k < b.keys; k += W / 2) dots<type, 2>(b, r, k);
    for (int64_t k = 0; r < b.rows && k < b.keys; k += W) dots<type, 1>(b, r, k);
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
    const Reader<type> matrix(b.matrix), next(b.next);
    F sums[rows][vectors] = {};
    const float* weight = b.scores + r * kTileKeys;
    for (int64_t k = 0; k < b.keys; ++k) {
      const auto* row = matrix.at(k) + e;
      F w[rows];
      for (int i = 0; i < rows; ++i) w[i] = V::set(weight[i * kTileKeys + k]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        if (r == 0) next.ask_for(k, e + v * W);
        const F value = Reader<type>::load(row + v * W);
#pragma GCC unroll 2
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
    int64_t e = 0;
    for (; e + 4 * W <= b.width; e += 4 * W) weighted<type, rows, 4>(b, r, e);
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
    for (; r + 2 <= b.rows; r += 2) weighted_rows<type, 2>(b, r);
    if (r < b.rows) weighted_rows<type, 1>(b, r);
  }
  static void decode_output(const DecodeBlock& b) {
    b.matrix.type == Number::kFloat ? output_of<Number::kFloat>(b) : output_of<Number::kBFloat16>(b);
  }

  static constexpr Isa table(const char* name, const char* needs) {
    return {name,
            W,
            needs,
            Base::product,
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
