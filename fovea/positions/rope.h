// Rotary positions (Su et al. 2021, "RoFormer", equation 34): each pair of a head's channels turns by an angle that
// grows with the position, so that q · k depends on the distance only.
//
//   (a, b) at position p  ->  (a cos pθᵢ − b sin pθᵢ,  a sin pθᵢ + b cos pθᵢ),   θᵢ = base^(−2i/R)
//
// Two layouts exist, told apart by name: in "interleaved" (the paper) pair i is channels 2i and 2i + 1; in "halves"
// (Hugging Face's Llama, GPT-NeoX) it is channels i and i + R/2. A checkpoint of one layout runs in the other after the
// rows of its query and key projections are permuted, head by head (interleaved_to_halves).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/angles.h"

namespace fovea {

// Encodings whose tables are {cos, ±sin}, by which query and key turn.
class RotaryPositionImpl : public PositionImpl {
 public:
  using PositionImpl::rotate;
  // Computed in f32 (f64 for f64) and rounded to the type of query and key at the end.
  std::pair<Tensor, Tensor> rotate(const Tensor& query, const Tensor& key,
                                   const std::vector<Tensor>& tables) const override;

 protected:
  // Reads head_width and layout.
  RotaryPositionImpl(std::string name, const PositionOptions& options);
  bool interleaved_;
};

class RopePositionImpl final : public RotaryPositionImpl {
 public:
  // Reads head_width, rotary_width (even; the first channels of each head), base, scaling, layout, max_positions.
  explicit RopePositionImpl(const PositionOptions& options);
  // With dynamic scaling the pass's largest position tells how long the text is.
  // {cos, ±sin}, [T, R] or [B, 1, T, R], for each channel as it stands in the layout.
  std::vector<Tensor> tables(const Positions& positions, int64_t T, const at::TensorOptions& like) const override;

 private:
  int64_t rotary_width_;
  Angles angles_;
};

namespace rope {

// Rows of a query or key projection, weight [heads · D, C] or bias [heads · D], so that the layout changes and the
// scores stay; `heads` is G for the key.
Tensor interleaved_to_halves(const Tensor& rows, int64_t heads, int64_t rotary_width = 0);
Tensor halves_to_interleaved(const Tensor& rows, int64_t heads, int64_t rotary_width = 0);

}  // namespace rope
}  // namespace fovea
