// An image as a sequence (Dosovitskiy et al. 2021, equation 1): it is cut into patches, each patch projected to a
// vector, a class token put in front, a learned vector added for each place.
//
//   [class + position₀; patch₁ · E + position₁; … ; patch_N · E + position_N]
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "fovea/layers/module.h"

namespace fovea {

struct PatchEmbeddingOptions {
  int64_t width = 0;  // C
  int64_t channels = 3;
  std::array<int64_t, 2> image{224,
                               224};     // Y, X in pixels; what does not fill a patch at the lower or right edge is cut
  std::array<int64_t, 2> patch{16, 16};  // likewise
  bool any_image_size = false;           // positions are resized to an image of another size, else it is an error
  bool positions = true;                 // a learned vector is added for each place
};

class PatchEmbeddingImpl : public torch::nn::Module {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit PatchEmbeddingImpl(PatchEmbeddingOptions options);
  // images [B, channels, Y, X], floating point -> [B, 1 + N, C]; patches row by row, from the top left one.
  at::Tensor forward(const at::Tensor& images) const;
  std::array<int64_t, 2> grid() const;  // patches of options().image, Y and X
  std::array<int64_t, 2> grid(const at::Tensor& images) const;
  const PatchEmbeddingOptions& options() const { return options_; }

  at::Tensor weight;       // [C, channels, patch Y, patch X]
  at::Tensor bias;         // [C]
  at::Tensor class_token;  // [1, 1, C]
  at::Tensor positions;    // [1, 1 + N, C] or undefined; all initially normal with deviation 0.02, the bias 0

 private:
  PatchEmbeddingOptions options_;
};
FOVEA_MODULE(PatchEmbedding, PatchEmbeddingOptions);

// Positions for another grid of patches, both given as {rows, columns}: [1, 1 + N, C] -> [1, 1 + N', C]. The first row,
// the class token's, stays; the others are interpolated bicubically (a = −0.75, pixel centres aligned). Differentiable.
at::Tensor resize_positions(const at::Tensor& positions, std::array<int64_t, 2> from, std::array<int64_t, 2> to);

}  // namespace fovea
