// Fixed waves added to the embeddings (Vaswani et al. 2017, section 3.5):
//
//   PE(p, 2i) = sin(p / base^(2i/C)),  PE(p, 2i + 1) = cos(p / base^(2i/C))
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/angles.h"

namespace fovea {

class SinusoidalPositionImpl final : public PositionImpl {
 public:
  // Reads width (even), base, max_positions and layout: "interleaved" as in the paper, "halves": all sines, then all
  // cosines (as Tensor2Tensor and Marian have it).
  explicit SinusoidalPositionImpl(const PositionOptions& options);
  Tensor embed(const Tensor& x, const Positions& positions) const override;

 private:
  Angles waves_;
};

}  // namespace fovea
