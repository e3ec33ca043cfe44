// Rotary angles for texts longer than the model was trained on.
//
//   linear   every angle divided by the factor (Chen et al. 2023, "Position interpolation", equation 3)
//   dynamic  a base that grows with the text beyond the original length ("dynamic NTK"; Peng et al. 2023, "YaRN",
//            appendix B)
//   yarn     fast pairs keep their angle, slow ones are divided, those between blend; scores grow (there, section 3)
//   llama3   the same idea by wavelength (Llama 3.1)
//
// With dynamic scaling the angle of a position depends on the length of the text: beyond the original length cached
// decoding and batches differ from whole, single texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "fovea/base/config.h"

namespace fovea {

struct RopeScaling {
  std::string type = "none";       // "none", "linear", "dynamic", "yarn", "llama3"
  double factor = 1;               // how many times longer
  int64_t original_positions = 0;  // length the model was trained on; all but linear need it

  // llama3: pairs that turn less often than this within the original length are divided, more often than that kept.
  double low_frequency = 1, high_frequency = 4;

  // yarn: the same two bounds, the greater first.
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // the blend begins and ends at whole pairs
  // What cosine and sine are multiplied by; 0: g(1) with g(m) = 0.1 · m · ln(factor) + 1, or g(mscale) / g(mscale_all)
  // where both are given.
  double attention_factor = 0;
  double mscale = 0, mscale_all = 0;

  void visit(FieldVisitor& visitor);
};

// Radians that each pair turns per position, f64 [width / 2]: base^(−2i / width).
at::Tensor rope_frequencies(int64_t width, double base);
// Scaled, for texts of `length` tokens, which only dynamic reads. Error(kConfig) for settings that make no angles.
at::Tensor rope_frequencies(int64_t width, double base, const RopeScaling& scaling, int64_t length = 0);
// What cosine and sine are multiplied by.
double rope_amplitude(const RopeScaling& scaling);

}  // namespace fovea
