// From an image's pixels to what a model takes: resize, rescale, normalise, in this order, as a folder's
// preprocessor_config.json says.
//
//   const auto prepare = ImageProcessor::load("vit");
//   Tensor x = prepare(read_image("cat.png"));    // [3, 224, 224]
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

struct ImageProcessorOptions {
  bool resize = true;
  int64_t height = 224, width = 224;
  std::string filter = "bilinear";  // or "bicubic"; both widened where the image shrinks (antialias)
  bool rescale = true;
  double factor = 1 / 255.0;
  bool normalize = true;                         // (x − mean) / deviation
  std::vector<double> mean{0.5, 0.5, 0.5};       // by channel, or one for all
  std::vector<double> deviation{0.5, 0.5, 0.5};  // likewise; not 0
};

class ImageProcessor {
 public:
  // Error(kConfig) for sizes below 1, an unknown filter, a deviation of 0.
  explicit ImageProcessor(ImageProcessorOptions options = {});
  // The folder's preprocessor_config.json, as Hugging Face's ViTImageProcessor writes it. A field that changes the
  // result in another way (cropping, padding, another filter) is Error(kInput).
  static ImageProcessor load(const std::filesystem::path& folder);
  void save(const std::filesystem::path& folder) const;

  // uint8 [channels, Y, X] -> f32 [channels, height, width]. Resizing rounds to whole levels, as image libraries do.
  at::Tensor operator()(const at::Tensor& image) const;
  // Images of any sizes -> [B, channels, height, width].
  at::Tensor operator()(const std::vector<at::Tensor>& images) const;
  // The two halves of the above: uint8 [channels, Y, X] -> uint8 [channels, height, width] …
  at::Tensor resized(const at::Tensor& image) const;
  // … and uint8 [..., channels, Y, X] -> f32 of the same shape, rescaled and normalised.
  at::Tensor scaled(const at::Tensor& pixels) const;
  const ImageProcessorOptions& options() const { return options_; }

 private:
  ImageProcessorOptions options_;
};

}  // namespace fovea
