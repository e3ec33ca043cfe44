// The loops over whole rows that stand beside attention: GELU, norms, cross entropy, rotary positions, and a linear
// layer of few rows. As in micro.h, all names are local to the file that includes this one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/kernels/micro.h"

namespace fovea {
namespace {

template <class V>
struct RowLoops : Loops<V> {
  using Base = Loops<V>;
  using F = typename V::F;
  using U = typename V::U;
  using Base::exp2, Base::philox, Base::to_float, Base::transpose_block;
  using Base::kInfinity, Base::kLog2E, Base::W;

  template <Number type>
  struct Reader {
    using T = std::conditional_t<type == Number::kFloat, float, uint16_t>;
    const T* data;
    int64_t row;
    explicit Reader(const Matrix& m) : data(static_cast<const T*>(m.data)), row(m.row) {}
    const T* at(int64_t k) const { return data + k * row; }
    static F load(const float* p) { return V::load(p); }
    static F load(const uint16_t* p) { return V::load_bf16(p); }
    static float number(const T* p) { return to_float({const_cast<T*>(p), type, 0, 1}, 0); }
  };
  template <Number type>
  using Numbers = typename Reader<type>::T;

  // ---- The ends of rows --------------------------------------------------------------------------------------------

  template <class F1>
  [[gnu::always_inline]] static inline void for_each_vector(int64_t count, const F1& f) {
    int64_t i = 0;
    for (; i + W <= count; i += W) f(i, W);
    if (i < count) f(i, count - i);
  }
  // n ≤ W numbers; 0 in the other lanes.
  static F load_some(const float* p, int64_t n) {
    if (n == W) return V::load(p);
    F x = {};
    __builtin_memcpy(&x, p, uint64_t(n) * sizeof(float));
    return x;
  }
  static F load_some(const uint16_t* p, int64_t n) {
    if (n == W) return V::load_bf16(p);
    uint16_t some[W] = {};
    __builtin_memcpy(some, p, uint64_t(n) * sizeof(uint16_t));
    return V::load_bf16(some);
  }
  static void store_some(float* p, F x, int64_t n) {
    if (n == W) return V::store(p, x);
    __builtin_memcpy(p, &x, uint64_t(n) * sizeof(float));
  }
  static void store_some(uint16_t* p, F x, int64_t n) {
    if (n == W) return V::store_bf16(p, x);
    uint16_t some[W];
    V::store_bf16(some, x);
    __builtin_memcpy(p, some, uint64_t(n) * sizeof(uint16_t));
  }
  static F first_lanes(F x, int64_t n) {
    F out = {};
    __builtin_memcpy(&out, &x, uint64_t(n) * sizeof(float));
    return out;
  }
  static float add_lanes(F x) {
    float sum[W];
    V::store(sum, x);
    for (int half = W / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
  }
  // Σ f(i, n) over a row, in four chains so that no addition waits for the one before it; long rows (a vocabulary) in
  // blocks, so that small numbers are not added to large sums.
  template <class F1>
  [[gnu::always_inline]] static inline float sum_over(int64_t count, const F1& f) {
    constexpr int64_t kBlock = 4096;
    double total = 0;
    for (int64_t i = 0; i < count;) {
      const int64_t end = i + kBlock < count ? i + kBlock : count;
      F sums[4] = {};
      for (; i + 4 * W <= end; i += 4 * W)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) sums[j] += f(i + j * W, W);
      for (; i < end; i += W) sums[0] += f(i, i + W <= end ? W : end - i);
      total += add_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    return float(total);
  }

  // ---- GELU --------------------------------------------------------------------------------------------------------

  static constexpr float kTwiceSqrt = 1.59576912f, kCubic = 0.044715f;  // 2 · √(2/π)

  // e⁻²ᵘ; GELU's gate is 1 / (1 + e⁻²ᵘ).
  [[gnu::always_inline]] static inline F gate_exponential(F x) {
    const F twice_u = x * (x * x * kCubic + 1.0f) * kTwiceSqrt;
    return exp2(V::max(V::set(-126.0f), twice_u * kLog2E) * -1.0f);
  }
  // Further out the gate is 0 or 1.
  [[gnu::always_inline]] static inline F within_gate(F x) {
    return V::max(V::set(-12.0f), V::max(V::set(-12.0f), x) * -1.0f) * -1.0f;
  }

  static void gelu(const float* x, float* y, int64_t count) {
    for_each_vector(count, [&](int64_t i, int64_t n) {
      const F v = load_some(x + i, n);
      store_some(y + i, v < -12.0f ? F{} : v / (1.0f + gate_exponential(within_gate(v))), n);
    });
  }
  static void gelu_backward(const float* x, const float* gradient, float* out, int64_t count) {
    for_each_vector(count, [&](int64_t i, int64_t n) {
      const F v = within_gate(load_some(x + i, n)), e = gate_exponential(v), gate = 1.0f / (1.0f + e);
      const F slope = gate + v * gate * (e * gate) * (v * v * (3 * kCubic) + 1.0f) * kTwiceSqrt;  // e · gate = 1 − gate
      store_some(out + i, load_some(gradient + i, n) * slope, n);
    });
  }

  // ---- Norms -------------------------------------------------------------------------------------------------------

  // Which elements of a row stay, 256 columns at a time: sixteen counters give sixteen decisions each (dropout.h), the
  // i-th of counter j is column 16 · i + j, so that the answer does not depend on the width of a register.
  class RowKeep {
   public:
    static constexpr int64_t kColumns = 256;
    RowKeep(const RowDropout& d, int64_t row) : dropout_(d), row_(row) {}
    // dropout(x) for n columns from c on; c goes up in steps of W from 0.
    F operator()(F x, int64_t c) {
      if (c % kColumns == 0) fill(c);
      U stays;
      __builtin_memcpy(&stays, stays_ + c % kColumns, sizeof(stays));
      return F(U(x * dropout_.kept) & stays);
    }

   private:
    void fill(int64_t c) {
      U lane;
      for (int i = 0; i < W; ++i) lane[i] = uint32_t(i);
      for (int64_t j = 0; j < 16; j += W) {
        U word[4] = {V::set(uint32_t(c / 16 + j)) + lane, V::set(uint32_t(row_)), V::set(uint32_t(row_ >> 32)), U{}};
        philox(dropout_.seed, word);
        for (int i = 0; i < 16; ++i) {
          const U stays = Base::stays(word[i / 4], i % 4, dropout_.threshold);
          __builtin_memcpy(stays_ + 16 * i + j, &stays, sizeof(stays));
        }
      }
    }
    const RowDropout& dropout_;
    int64_t row_;
    uint32_t stays_[kColumns];
  };

  template <Number type, bool drops>
  static void norm_row(const NormRows& a, int64_t r) {
    using T = Numbers<type>;
    const int64_t width = a.width, at = r * width;
    const T* x = static_cast<const T*>(a.x) + at;
    if (a.added != nullptr) {
      const T* added = static_cast<const T*>(a.added) + at;
      T* sum = static_cast<T*>(a.sum) + at;
      RowKeep keep(a.dropout, r);
      for_each_vector(width, [&](int64_t i, int64_t n) {
        F y = load_some(added + i, n);
        if constexpr (drops) y = keep(y, i);
        store_some(sum + i, load_some(x + i, n) + y, n);
      });
      x = sum;
    }
    float mean = 0;
    if (a.centred) mean = sum_over(width, [&](int64_t i, int64_t n) { return load_some(x + i, n); }) / float(width);
    const float squares = sum_over(width, [&](int64_t i, int64_t n) {
      const F d = load_some(x + i, n) - mean;
      return n == W ? d * d : first_lanes(d * d, n);
    });
    const float inverse = 1.0f / __builtin_sqrtf(squares / float(width) + a.eps);
    T* normed = static_cast<T*>(a.normed) + at;
    for_each_vector(width, [&](int64_t i, int64_t n) {
      F y = (load_some(x + i, n) - mean) * inverse * load_some(a.weight + i, n);
      if (a.bias) y += load_some(a.bias + i, n);
      store_some(normed + i, y, n);
    });
    a.mean[r] = mean, a.inverse[r] = inverse;
  }

  template <Number type>
  static void norm_rows(const NormRows& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      a.dropout.threshold ? norm_row<type, true>(a, r) : norm_row<type, false>(a, r);
  }
  static void norm(const NormRows& a, int64_t begin, int64_t end) {
    a.type == Number::kFloat ? norm_rows<Number::kFloat>(a, begin, end) : norm_rows<Number::kBFloat16>(a, begin, end);
  }

  // With n = (sum − mean) · inverse and g = weight · d(normed):
  //   d(sum) += inverse · (g − mean(g) − n · mean(g · n)); d(weight) = Σ d(normed) · n; d(bias) = Σ d(normed).
  template <Number type>
  static void norm_gradient_row(const NormRowsGradient& a, int64_t r) {
    using T = Numbers<type>;
    const int64_t width = a.width, at = r * width;
    const T* sum = static_cast<const T*>(a.sum) + at;
    const T* gradient = static_cast<const T*>(a.normed_gradient) + at;
    const T* through = a.sum_gradient ? static_cast<const T*>(a.sum_gradient) + at : nullptr;
    T* x_gradient = static_cast<T*>(a.x_gradient) + at;
    T* added_gradient = a.added_gradient ? static_cast<T*>(a.added_gradient) + at : nullptr;
    const float mean = a.mean[r], inverse = a.inverse[r];
    F totals = {};
    const float products = sum_over(width, [&](int64_t i, int64_t n) {
      const F d = load_some(gradient + i, n), normed = (load_some(sum + i, n) - mean) * inverse;
      store_some(a.weight_gradient + i, load_some(a.weight_gradient + i, n) + d * normed, n);
      if (a.bias_gradient) store_some(a.bias_gradient + i, load_some(a.bias_gradient + i, n) + d, n);
      const F g = d * load_some(a.weight + i, n);
      totals += g;
      return g * normed;  // 0 behind the row, where d is
    });
    const float g_mean = a.centred ? add_lanes(totals) / float(width) : 0, n_mean = products / float(width);
    RowKeep keep(a.dropout, r);
    for_each_vector(width, [&](int64_t i, int64_t n) {
      const F g = load_some(gradient + i, n) * load_some(a.weight + i, n),
              normed = (load_some(sum + i, n) - mean) * inverse;
      F out = (g - g_mean - normed * n_mean) * inverse;
      if (through) out += load_some(through + i, n);
      store_some(x_gradient + i, out, n);
      if (added_gradient) store_some(added_gradient + i, keep(out, i), n);
    });
  }

  static void norm_backward(const NormRowsGradient& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      a.type == Number::kFloat ? norm_gradient_row<Number::kFloat>(a, r) : norm_gradient_row<Number::kBFloat16>(a, r);
  }

  // ---- Cross entropy -----------------------------------------------------------------------------------------------

  static float cross_entropy(float* logits, int64_t vocabulary, int64_t label, float smoothing, bool gradient) {
    F tops = V::set(-kInfinity);
    for (int64_t i = 0; i + W <= vocabulary; i += W) tops = V::max(V::load(logits + i), tops);
    float top = -kInfinity;
    for (int lane = 0; lane < W; ++lane) top = tops[lane] > top ? tops[lane] : top;
    for (int64_t i = vocabulary / W * W; i < vocabulary; ++i) top = logits[i] > top ? logits[i] : top;

    const float score = logits[label];
    float all = 0;
    if (smoothing != 0) all = sum_over(vocabulary, [&](int64_t i, int64_t n) { return load_some(logits + i, n); });
    const float sum = sum_over(vocabulary, [&](int64_t i, int64_t n) {
      F e = exp2((load_some(logits + i, n) - top) * kLog2E);
      if (n < W) e = first_lanes(e, n);
      if (gradient) store_some(logits + i, e, n);
      return e;
    });
    const float log_sum = top + __builtin_logf(sum);
    const float even = smoothing / float(vocabulary);
    if (gradient) {
      const float factor = 1.0f / sum;
      for_each_vector(vocabulary, [&](int64_t i, int64_t n) {
        store_some(logits + i, load_some(logits + i, n) * factor - even, n);
      });
      logits[label] -= 1.0f - smoothing;
    }
    // Σ of the targets is 1: the log-sum-exp counts once.
    return smoothing == 0 ? log_sum - score : log_sum - (1.0f - smoothing) * score - even * all;
  }

  // ---- Rotary positions --------------------------------------------------------------------------------------------

  static F swap_neighbours(F x) {
    U other;
    for (int i = 0; i < W; ++i) other[i] = uint32_t(i ^ 1);
    return __builtin_shuffle(x, other);
  }

  // Going back swaps the sine's places, which is its sign.
  template <Number type>
  static void rotate_row(const Rotation& a, const Numbers<type>* from, Numbers<type>* to) {
    const float sign = a.back ? -1.0f : 1.0f;
    const int64_t half = a.turned / 2;
    const auto load = [](const Numbers<type>* p) { return Reader<type>::load(p); };
    const auto number = [](const Numbers<type>* p) { return Reader<type>::number(p); };
    const auto store_number = [](Numbers<type>* p, float x) { Base::from_float({p, type, 0, 1}, 0, x); };
    const auto store = [](Numbers<type>* p, F x) { store_some(p, x, W); };
    int64_t i = 0;
    if (a.interleaved) {
      for (; i + W <= a.turned; i += W) {
        const F x = load(from + i);
        store(to + i, x * V::load(a.cosine + i) + swap_neighbours(x) * V::load(a.sine + i) * sign);
      }
      for (; i < a.turned; i += 2) {
        const float x = number(from + i), y = number(from + i + 1);
        store_number(to + i, x * a.cosine[i] + y * a.sine[i] * sign);
        store_number(to + i + 1, y * a.cosine[i + 1] + x * a.sine[i + 1] * sign);
      }
    } else {
      for (; i + W <= half; i += W) {
        const F x = load(from + i), y = load(from + i + half);
        store(to + i, x * V::load(a.cosine + i) + y * V::load(a.sine + i) * sign);
        store(to + i + half, y * V::load(a.cosine + i + half) + x * V::load(a.sine + i + half) * sign);
      }
      for (; i < half; ++i) {
        const float x = number(from + i), y = number(from + i + half);
        store_number(to + i, x * a.cosine[i] + y * a.sine[i] * sign);
        store_number(to + i + half, y * a.cosine[i + half] + x * a.sine[i + half] * sign);
      }
    }
    for (i = a.turned; i < a.width; ++i) to[i] = from[i];
  }

  template <Number type>
  static void rotate_rows(const Rotation& a) {
    for (int64_t r = 0; r < a.rows; ++r)
      rotate_row<type>(a, Reader<type>(a.from).at(r), static_cast<Numbers<type>*>(a.to.data) + r * a.to.row);
  }
  static void rotate(const Rotation& a) {
    a.from.type == Number::kFloat ? rotate_rows<Number::kFloat>(a) : rotate_rows<Number::kBFloat16>(a);
  }

  // ---- A linear layer of few rows ----------------------------------------------------------------------------------

  // W sums at once: of `rows` inputs from m on with W / rows weight rows.
  template <Number type, int rows>
  static F skinny_tile(const SkinnyLinear& a, int64_t m, const Numbers<type>* const* w) {
    constexpr int outputs = W / rows;
    const float* x = a.input + m * a.width;
    F sums[W] = {};
    for (int64_t k = 0; k + W <= a.width; k += W) {
      F in[rows];
#pragma GCC unroll 4
      for (int i = 0; i < rows; ++i) in[i] = V::load(x + i * a.width + k);
#pragma GCC unroll 16
      for (int j = 0; j < outputs; ++j) {
        const F y = Reader<type>::load(w[j] + k);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i) sums[i * outputs + j] += in[i] * y;
      }
    }
    transpose_block(sums);
    F total = {};
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) total += sums[i];
    return total;
  }

  // The range is cut into W runs of neighbouring outputs, read side by side: each is one long stream, which the
  // processor foresees, and many of them keep memory busy. Rows one after the other are streams too short for that and
  // came at 40 % of the speed.
  template <Number type>
  static void skinny_range(const SkinnyLinear& a, int64_t begin, int64_t end) {
    const Reader<type> weight(a.weight);
    const int64_t run = (end - begin + W - 1) / W;
    for (int64_t r = 0; r < run; ++r) {
      const auto output = [&](int j) { return begin + j * run + r; };
      const Numbers<type>* w[W];  // beyond the last output, that one is computed again
      for (int j = 0; j < W; ++j) w[j] = weight.at(output(j) < end ? output(j) : end - 1);
      const auto tiles = [&]<int rows>(int64_t m) {
        constexpr int outputs = W / rows;
        for (int first = 0; first < W; first += outputs) {
          float sums[W];
          V::store(sums, skinny_tile<type, rows>(a, m, w + first));
          for (int i = 0; i < rows; ++i) {
            const float* x = a.input + (m + i) * a.width;
            for (int j = 0; j < outputs && output(first + j) < end; ++j) {
              const int64_t n = output(first + j);
              float y = sums[i * outputs + j] + (a.bias ? a.bias[n] : 0.0f);
              for (int64_t k = a.width / W * W; k < a.width; ++k) y += x[k] * Reader<type>::number(w[first + j] + k);
              a.output[(m + i) * a.pitch + n] = y;
            }
          }
        }
      };
      int64_t m = 0;
      for (; m + 4 <= a.rows; m += 4) tiles.template operator()<4>(m);
      if (m + 2 <= a.rows) tiles.template operator()<2>(m), m += 2;
      if (m < a.rows) tiles.template operator()<1>(m);
    }
  }
  static void skinny_linear(const SkinnyLinear& a, int64_t begin, int64_t end) {
    a.weight.type == Number::kFloat ? skinny_range<Number::kFloat>(a, begin, end)
                                    : skinny_range<Number::kBFloat16>(a, begin, end);
  }
};

}  // namespace
}  // namespace fovea
