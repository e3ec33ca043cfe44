// A learned vector per position, added to the embeddings (Gehring et al. 2017; GPT-2, BERT, BART).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"

namespace fovea {

class LearnedPositionImpl final : public PositionImpl {
 public:
  // Reads width, max_positions, offset.
  explicit LearnedPositionImpl(const PositionOptions& options);
  // x[b, t] + weight[position + offset]
  Tensor embed(const Tensor& x, const Positions& positions) const override;

  Tensor weight;  // [max_positions + offset, C], initially normal with deviation 0.02
};

}  // namespace fovea
