// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/skinny_linear.h"

#include <cstring>

namespace fovea {
namespace {

// Eight sums side by side: one register with AVX, two with SSE or NEON; the arithmetic is the same.
typedef float Lanes __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

[[gnu::always_inline]] inline void load(Lanes& to, const float* from) { std::memcpy(&to, from, sizeof(Lanes)); }

[[gnu::always_inline]] inline float sum(const Lanes& x) {
  return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

// Four outputs at a time share each load of the input.
template <int kOutputs>
[[gnu::always_inline]] inline void outputs(const SkinnyLinear& a, int64_t n) {
  const float* w = a.weight + n * a.width;
  for (int64_t m = 0; m < a.rows; ++m) {
    const float* x = a.input + m * a.width;
    Lanes sums[kOutputs] = {};
    int64_t k = 0;
    for (; k + kLanes <= a.width; k += kLanes) {
      Lanes in;
      load(in, x + k);
      for (int i = 0; i < kOutputs; ++i) {
        Lanes row;
        load(row, w + i * a.width + k);
        sums[i] += in * row;
      }
    }
    for (int i = 0; i < kOutputs; ++i) {
      float total = sum(sums[i]);
      for (int64_t tail = k; tail < a.width; ++tail) total += x[tail] * w[i * a.width + tail];
      a.output[m * a.outputs + n + i] = total + (a.bias ? a.bias[n + i] : 0.0f);
    }
  }
}

[[gnu::always_inline]] inline void range(const SkinnyLinear& a, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + 4 <= end; n += 4) outputs<4>(a, n);
  for (; n < end; ++n) outputs<1>(a, n);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void range_avx2(const SkinnyLinear& a, int64_t begin, int64_t end) { range(a, begin, end); }
#endif

}  // namespace

void skinny_linear(const SkinnyLinear& args, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) return range_avx2(args, begin, end);
#endif
  range(args, begin, end);
}

}  // namespace fovea
