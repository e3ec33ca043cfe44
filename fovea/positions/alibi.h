// ALiBi (Press et al. 2022): a penalty on the scores that grows with distance, one slope per head, fixed as in the
// paper or learned from there.
//
// For H a power of two the slopes are 2^(−8/H), 2^(−16/H), …, 2^(−8); otherwise those of the power of two below H,
// followed by every other one of the next power of two (section 3 and the authors' code).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"

namespace fovea {

class AlibiPositionImpl final : public PositionImpl {
 public:
  // Reads heads, learned_slopes and max_positions.
  explicit AlibiPositionImpl(const PositionOptions& options);
  Score score(int64_t T, int64_t S) const override;

  Tensor slopes;  // [H], f32; a parameter only where they are learned: casting a model must not cast the paper's
};

// [H], f32.
Tensor alibi_slopes(int64_t heads);

}  // namespace fovea
