// flags: -mavx512bf16 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma
// AVX-512 that multiplies pairs of bf16. Its instructions take denormal numbers for 0 and never give one.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/isa/avx512.h"

namespace fovea {
namespace {

struct Avx512Bf16 : Avx512 {
  static constexpr bool kPairs = true;
  using Avx512::multiply_add;
  static F multiply_add(F sum, U a, U b) { return _mm512_dpbf16_ps(sum, __m512bh(a), __m512bh(b)); }
  static U rounded(F x) { return U(_mm512_cvtepu16_epi32(__m256i(_mm512_cvtneps_pbh(x)))); }
  static void store_bf16(uint16_t* p, F x) { *reinterpret_cast<UnalignedH*>(p) = H(_mm512_cvtneps_pbh(x)); }
  static U pairs(F even, F odd) {
    // All even ones come out first: their places in 0, 16, 1, 17 … are what they and the odd ones interleave to.
    const __m512i places = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                            21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return U(_mm512_permutexvar_epi16(places, __m512i(_mm512_cvtne2ps_pbh(odd, even))));
  }
};

}  // namespace

extern const Isa kIsa_avx512_bf16;
// Intel's processors take pairs at half the rate of f32 (those that are fast at bf16 are so by AMX): chosen on AMD's.
const Isa kIsa_avx512_bf16 =
    DecodeLoops<Avx512Bf16>::table("avx512_bf16", "avx512f avx512bw avx512vl avx512dq avx512bf16", "amd");

}  // namespace fovea
