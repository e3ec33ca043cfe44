// flags:
// Plain C++ in vectors of four, which every compiler maps to what its target has. Pairs of bf16 are faster nowhere
// here; they are taken so that their path runs, and is tested, on every machine.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/micro_decode.h"

namespace fovea {
namespace {

struct Scalar : Lanes<4> {
  static constexpr bool kPairs = true;
};

}  // namespace

extern const Isa kIsa_scalar;
const Isa kIsa_scalar = DecodeLoops<Scalar>::table("scalar", "");

}  // namespace fovea
