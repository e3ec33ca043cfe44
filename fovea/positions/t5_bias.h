// T5's relative bias (Raffel et al. 2020, section 2.1): a learned number per head and bucket of distances, added to the
// scores; one table serves all layers of a stack. Cross-attention has none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"

namespace fovea {

class T5BiasPositionImpl final : public PositionImpl {
 public:
  // Reads heads, buckets, max_distance, bidirectional (encoders: true), max_positions.
  explicit T5BiasPositionImpl(const PositionOptions& options);
  Score score(int64_t T, int64_t S) const override;

  Tensor weight;  // [buckets, H], initially normal with deviation 0.02
};

}  // namespace fovea
