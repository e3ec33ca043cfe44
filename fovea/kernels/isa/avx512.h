// The vector type that the AVX-512 tables share. Included by files of this folder only, with their flags.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "fovea/kernels/micro_decode.h"

namespace fovea {
namespace {

struct Avx512 : Lanes<16> {
  static constexpr int kRows = 12;  // of 32 registers, 24 hold sums
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F load_bf16(const uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }
  static void multiply(U a, uint32_t b, U& high, U& low) {
    const __m512i factor = _mm512_set1_epi32(int(b));
    const __m512i even = _mm512_mul_epu32(__m512i(a), factor),
                  odd = _mm512_mul_epu32(_mm512_srli_epi64(__m512i(a), 32), factor);
    low = U(_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)));
    high = U(_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd));
  }
};

}  // namespace
}  // namespace fovea
