// A model that sees and its preparation of images, from one folder: what a picture shows.
//
//   const auto vit = load_pretrained<ImageEncoder>("vit");
//   vit.classify({read_image("cat.png", vit.shape().channels)})[0].label;
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "fovea/data/image_processor.h"
#include "fovea/models/model.h"
#include "fovea/models/text_encoder.h"

namespace fovea {

// What a model takes for an image, in pixels.
struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;
  int64_t rows = 0, columns = 0;  // of patches; what does not fill one is cut off below and to the right
  int64_t patch_height = 0, patch_width = 0;
  bool any_size = false;  // the model resizes its positions to other images
};
// Nothing for a model that does not see.
std::optional<ImageShape> image_shape(const ModelImpl& model);

struct ImageEncoder {
  EncoderModel model;  // in evaluation mode, or its dropout is at work
  ImageProcessor prepare;
  int64_t batch_size = 32;  // images that run together

  // Whether the folder's config.json is that of a model that sees; false for anything else.
  static bool fits(const std::filesystem::path& folder);
  // config.json, model.safetensors, preprocessor_config.json. Error(kInput) where one is missing or the model does not
  // see.
  static ImageEncoder load(const std::filesystem::path& folder);
  void save(const std::filesystem::path& folder) const;

  ImageShape shape() const { return image_shape(*model).value(); }
  // The pixels of a picture as read_picture() names it, uint8 [channels, Y, X], with as many channels as the model
  // takes; Error(kInput) naming it where it has another size and the folder does not say to resize.
  Tensor read(const std::string& picture) const;
  // For a model with a classifier; Error(kInput) for another. Images uint8 [channels, Y, X] of any size.
  std::vector<Classified> classify(const std::vector<Tensor>& images) const;
};

}  // namespace fovea
