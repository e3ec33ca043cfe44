// Relative keys (Shaw et al. 2018, equations 4 and 5): a learned vector per distance joins the key.
//
//   score = qᵢ · (kⱼ + a_{clip(j − i, reach)}) / √D
//
// All heads share the vectors (section 3.3). The paper's other half, vectors that join the values, changed nothing in
// its table 3 and is not built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"

namespace fovea {

class RelativeKeysPositionImpl final : public PositionImpl {
 public:
  // Reads head_width, reach (0: the paper's 16), max_positions.
  explicit RelativeKeysPositionImpl(const PositionOptions& options);
  Score score(int64_t T, int64_t S) const override;

  Tensor weight;  // [2 · reach + 1, D], from the farthest key before the query on; normal with deviation 0.02
};

}  // namespace fovea
