// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/patch_embedding.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/zeros.h>

#include "fovea/base/check.h"
#include "fovea/base/size.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

std::array<int64_t, 2> grid_of(int64_t Y, int64_t X, const std::array<int64_t, 2>& patch) {
  return {Y / patch[0], X / patch[1]};
}

}  // namespace

PatchEmbeddingImpl::PatchEmbeddingImpl(PatchEmbeddingOptions options) : options_(options) {
  const auto& [width, channels, image, patch, any, places_learned] = options_;
  FOVEA_CHECK_CONFIG(width > 0, "patch embedding: width is ", width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(channels > 0, "patch embedding: channels is ", channels, ", wanted at least 1");
  for (int axis = 0; axis < 2; ++axis)
    FOVEA_CHECK_CONFIG(patch[axis] > 0 && patch[axis] <= image[axis], "patch embedding: patches of ", patch[0], " x ",
                       patch[1], " do not fit an image of ", image[0], " x ", image[1]);
  const double places = 1 + double(grid()[0]) * double(grid()[1]);
  check_parameters("patch embedding",
                   double(width) * (places + double(channels) * double(patch[0]) * double(patch[1])));
  weight = register_parameter("weight", fresh_weight({width, channels, patch[0], patch[1]}, 0.02));
  bias = register_parameter("bias", at::zeros({width}));
  class_token = register_parameter("class_token", fresh_weight({1, 1, width}, 0.02));
  if (places_learned) positions = register_parameter("positions", fresh_weight({1, int64_t(places), width}, 0.02));
}

std::array<int64_t, 2> PatchEmbeddingImpl::grid() const {
  return grid_of(options_.image[0], options_.image[1], options_.patch);
}

std::array<int64_t, 2> PatchEmbeddingImpl::grid(const at::Tensor& images) const {
  return grid_of(images.size(2), images.size(3), options_.patch);
}

at::Tensor PatchEmbeddingImpl::forward(const at::Tensor& images) const {
  const auto& o = options_;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, images.defined() && images.dim() == 4 && images.size(1) == o.channels,
                   "patch embedding: images are ", images.defined() ? images.sizes() : at::IntArrayRef(),
                   ", wanted [B, channels, Y, X] with ", o.channels, " channels");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, images.is_floating_point(), "patch embedding: images are ",
                   images.scalar_type(), ", wanted floating-point numbers, normalised as the model's folder says");
  const int64_t B = images.size(0), Y = images.size(2), X = images.size(3);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, o.any_image_size || (Y == o.image[0] && X == o.image[1]),
                   "patch embedding: images of ", Y, " x ", X, ", wanted ", o.image[0], " x ", o.image[1],
                   " (any_image_size would resize the positions)");
  const auto cells = grid_of(Y, X, o.patch);
  const auto [rows, columns] = cells;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, rows > 0 && columns > 0, "patch embedding: an image of ", Y, " x ", X,
                   " is smaller than a patch of ", o.patch[0], " x ", o.patch[1]);
  const at::Tensor patches = images.to(weight.scalar_type())
                                 .narrow(2, 0, rows * o.patch[0])
                                 .narrow(3, 0, columns * o.patch[1])
                                 .unflatten(3, {columns, o.patch[1]})
                                 .unflatten(2, {rows, o.patch[0]})  // [B, channels, rows, patch Y, columns, patch X]
                                 .permute({0, 2, 4, 1, 3, 5})
                                 .reshape({B, rows * columns, weight[0].numel()});  // [B, N, channels · patch]
  const at::Tensor x = at::cat({class_token.expand({B, 1, o.width}), affine(patches, weight.flatten(1), bias)}, 1);
  return positions.defined() ? x + resize_positions(positions, grid(), cells) : x;  // [B, 1 + N, C]
}

at::Tensor resize_positions(const at::Tensor& positions, std::array<int64_t, 2> from, std::array<int64_t, 2> to) {
  FOVEA_CHECK(positions.dim() == 3 && positions.size(0) == 1 && positions.size(1) == 1 + from[0] * from[1],
              "positions are ", positions.sizes(), ", wanted [1, 1 + ", from[0], " · ", from[1], ", C]");
  FOVEA_CHECK(to[0] > 0 && to[1] > 0, "a grid of ", to[0], " x ", to[1], ", wanted at least 1 x 1");
  if (from == to) return positions;
  const bool narrow = positions.scalar_type() == at::kBFloat16 || positions.scalar_type() == at::kHalf;
  const at::Tensor wide = narrow ? positions.to(at::kFloat) : positions;
  const at::Tensor cells = wide.slice(1, 1).view({1, from[0], from[1], -1}).permute({0, 3, 1, 2});  // [1, C, Y, X]
  const at::Tensor resized = at::upsample_bicubic2d(cells, to, false).flatten(2).transpose(1, 2);   // [1, N', C]
  return at::cat({wide.slice(1, 0, 1), resized}, 1).to(positions.scalar_type());
}

}  // namespace fovea
