// The angles that sinusoidal and rotary encodings share: position · base^(−2i / n), i = 0 … n/2 − 1 (Vaswani et al.
// 2017, section 3.5; Su et al. 2021, equation 15).
//
// Angle, sine and cosine are computed in f64 and rounded once, at the end: position 1857 in half precision would be off
// by half a radian.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"

namespace fovea {

class Angles {
 public:
  // `arrange` lays out what a table row holds, from angles [..., n/2] in f64 to [..., R] in f64.
  using Arrange = Tensor (*)(const Tensor& angles);
  // `frequencies`: radians per position, f64 [n/2]; what `arrange` gives is multiplied by `amplitude`. Rows for the
  // first positions (of `max_positions`, 0: no limit) are computed now, the others when asked for.
  Angles(Tensor frequencies, double amplitude, std::vector<Arrange> arrange, int64_t max_positions);
  // One table per arrangement, [T, R] or [B, T, R], f64 for an f64 `like`, otherwise f32, on its device.
  std::vector<Tensor> rows(const Positions& positions, int64_t T, const at::TensorOptions& like) const;
  // The same with other frequencies, which no table was made for.
  std::vector<Tensor> rows(const Positions& positions, int64_t T, const at::TensorOptions& like,
                           const Tensor& frequencies) const;

 private:
  std::vector<Tensor> compute(const Tensor& positions, at::ScalarType type, const Tensor& frequencies) const;

  std::vector<Arrange> arrange_;
  Tensor frequencies_;  // [n/2], f64
  double amplitude_;
  std::vector<Tensor> tables_;  // f32, outside the module's parameters: casting a model must not cast them
  int64_t tabulated_;
};

// Sine and cosine of each angle, [..., n/2] -> [..., n]: side by side (interleaved), or all sines first.
Angles::Arrange waves(bool interleaved);

// "halves", "interleaved" or, empty, `usual`; true for interleaved. Throws Error(kConfig) naming the nearest.
bool is_interleaved(const std::string& layout, const std::string& usual);

}  // namespace fovea
