// Positions of the cells of an image, by row and column: each axis has half of the channels and the waves or angles of
// a text of its own.
//
//   sinusoidal_2d   added to the embeddings (Vaswani et al. 2017, section 3.5, per axis; He et al. 2022, "Masked
//                   Autoencoders", appendix): channels 0 … C/2 − 1 say the row, the others the column
//   rope_2d         query and key turn (Su et al. 2021, per axis; Heo et al. 2024, "Rotary Position Embedding for
//                   Vision Transformer", section 3.2): of a head's pairs the first half turns by the row, the second by
//                   the column
//
// Class tokens (CellGrid::before) have no place: nothing is added to them, they do not turn. With the option `grid`
// {rows, columns}, cells of an image with another number of them are laid on that grid, centres on centres: cell r of R
// stands at (r + ½) · rows / R − ½. A sequence that is no grid is one row of cells, its positions are columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/rope.h"

namespace fovea {

class Sinusoidal2dPositionImpl final : public PositionImpl {
 public:
  // Reads width (a multiple of 4), base, grid, max_positions and layout as SinusoidalPositionImpl, within each half.
  explicit Sinusoidal2dPositionImpl(const PositionOptions& options);
  Tensor embed(const Tensor& x, const Positions& positions) const override;

 private:
  Tensor frequencies_;  // f64 [C/4]
  bool interleaved_;
};

class Rope2dPositionImpl final : public RotaryPositionImpl {
 public:
  // Reads head_width (a multiple of 4), base, grid, max_positions and layout as RopePositionImpl.
  explicit Rope2dPositionImpl(const PositionOptions& options);
  // {cos, ±sin}, [T, D] or [B, 1, T, D], as RopePositionImpl's.
  std::vector<Tensor> tables(const Positions& positions, int64_t T, const at::TensorOptions& like) const override;

 private:
  Tensor frequencies_;  // f64 [D/4]
};

// f64 [T, 2] (ids of rows of their own: [B, T, 2]): row and column of each token behind the class tokens, laid on
// `onto` where it is not empty.
Tensor cell_coordinates(const Positions& positions, int64_t T, const std::vector<int64_t>& onto, at::Device device);

}  // namespace fovea
