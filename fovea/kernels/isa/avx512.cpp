// flags: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma
// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/isa/avx512.h"

namespace fovea {

extern const Isa kIsa_avx512;
const Isa kIsa_avx512 = DecodeLoops<Avx512>::table("avx512", "avx512f avx512bw avx512vl avx512dq");

}  // namespace fovea
