// flags: -mavx2 -mfma
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "fovea/kernels/micro_decode.h"

namespace fovea {
namespace {

struct Avx2 : Lanes<8> {
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F load_bf16(const uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
  }
  static void multiply(U a, uint32_t b, U& high, U& low) {
    const __m256i factor = _mm256_set1_epi32(int(b));
    const __m256i even = _mm256_mul_epu32(__m256i(a), factor),
                  odd = _mm256_mul_epu32(_mm256_srli_epi64(__m256i(a), 32), factor);
    low = U(_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0b10101010));
    high = U(_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0b10101010));
  }
};

}  // namespace

extern const Isa kIsa_avx2;
const Isa kIsa_avx2 = DecodeLoops<Avx2>::table("avx2", "avx2 fma");

}  // namespace fovea
