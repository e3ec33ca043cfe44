// Pictures and their classes: the folders and files they come from, and batches for a classifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/data/augmentation.h"
#include "fovea/data/dataset.h"
#include "fovea/data/image_processor.h"

namespace fovea {

struct LabelledImage {
  std::string label;    // its folder's name; of an IDX file: empty
  int64_t number = -1;  // of an IDX file: the class's number
  std::string where;    // "shoes/left.png", "train-images-idx3-ubyte:12": for errors, and for read_picture()
  at::Tensor pixels;    // of an IDX file, uint8 [1, Y, X]; undefined: in the file of this name
};

// A folder whose folders are the classes and hold PNG and JPEG files (names that begin with a dot are passed over), by
// class and name in order of their bytes; or an IDX file of pictures [N, Y, X], its classes beside it in the file whose
// name has "labels" for "images" and "idx1" for "idx3". Error(kInput) naming the file or the folder for what is
// something else, for a class without pictures, for unequal numbers of pictures and classes, for pictures of no size.
std::vector<LabelledImage> read_labelled_images(const std::filesystem::path& path);

// Whether a class's name is a number, as IDX files have them.
bool is_class_number(const std::string& name);

// The different labels, sorted by their bytes, or as numbers where all are; of IDX files the numbers from 0 to the
// largest as text. Error(kInput) naming `source` where there is only one, or where some images have names and others
// numbers.
std::vector<std::string> image_classes(const std::vector<LabelledImage>& images, const std::string& source);

// uint8 [channels, Y, X]: a PNG or JPEG file, or with `name` FILE:N picture N (from 0) of an IDX file.
at::Tensor read_picture(const std::string& name, int64_t channels);
// The same of an image that was listed.
at::Tensor pixels_of(const LabelledImage& image, int64_t channels);

struct ImageBatchOptions {
  int64_t batch_size = 32;
  bool shuffle = false;
  uint64_t seed = 0;
  AugmentationOptions augmentation;
};

// Batches have images [B, channels, Y, X] and labels [B]. The pixels stay in memory as bytes; what augmentation does to
// a picture is a function of (seed, epoch, picture).
class LabelledImages : public Dataset {
 public:
  // images uint8 [N, channels, Y, X], of the size that a model takes; labels [N], numbers of classes.
  LabelledImages(at::Tensor images, std::vector<int64_t> labels, ImageProcessor prepare,
                 const ImageBatchOptions& options, const std::string& source = "images");

  int64_t batch_count(int64_t epoch) override;
  Batch batch(int64_t epoch, int64_t index) override;
  int64_t longest_row() const override { return 0; }        // an image is no row of tokens
  int64_t vocabulary_needed() const override { return 0; }  // likewise
  int64_t token_count() override { return int64_t(labels_.size()); }
  uint64_t fingerprint() const override;

 private:
  const std::vector<int64_t>& order(int64_t epoch);

  at::Tensor images_;
  std::vector<int64_t> labels_;
  ImageProcessor prepare_;
  ImageBatchOptions options_;
  std::vector<int64_t> order_;  // of epoch order_epoch_
  int64_t order_epoch_ = -1;
};

}  // namespace fovea
