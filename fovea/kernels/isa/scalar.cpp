// flags:
// Plain C++ in vectors of four, which every compiler maps to what its target has.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/micro_decode.h"

namespace fovea {

extern const Isa kIsa_scalar;
const Isa kIsa_scalar = DecodeLoops<Lanes<4>>::table("scalar", "");

}  // namespace fovea
