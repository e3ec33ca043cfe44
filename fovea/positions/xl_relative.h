// Transformer-XL's relative positions (Dai et al. 2019, section 3.3): four terms, of which two know the distance.
//
//   score = ((qᵢ + u) · kⱼ + (qᵢ + v) · W R_{i−j}) / √D
//           (a) and (c)      (b) and (d)
//
// R_n are the fixed waves of n (sinusoidal.h; sines first, as the authors lay them out), W a projection of its own, u
// and v learned for each head. Nothing depends on where a text begins: states of an earlier segment, or keys of a
// cache, can be used as they are.
//
// The query that leaves rotate() has u in it; the score takes v − u instead of v.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/angles.h"

namespace fovea {

class XlRelativePositionImpl final : public PositionImpl {
 public:
  // Reads width (even), heads, head_width, base, layout ("halves"), reach (0: every distance has its own R),
  // max_positions.
  explicit XlRelativePositionImpl(const PositionOptions& options);
  using PositionImpl::rotate;
  // {query + u, key}
  std::pair<Tensor, Tensor> rotate(const Tensor& query, const Tensor& key,
                                   const std::vector<Tensor>& tables) const override;
  Score score(int64_t T, int64_t S) const override;

  Tensor weight;         // [H · D, C], W
  Tensor content_bias;   // [H, D], u
  Tensor distance_bias;  // [H, D], v; all initially normal with deviation 0.02

 private:
  Tensor projected(int64_t from, int64_t to) const;

  Angles waves_;
};

}  // namespace fovea
