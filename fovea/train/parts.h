// From a recipe to what a trainer needs: texts read, tokenizer trained or loaded, datasets cut, model built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/image_processor.h"
#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"
#include "fovea/train/options.h"
#include "fovea/train/trainer.h"

namespace fovea {

// What a kind of data is counted in: "tokens", "texts", "images".
std::string unit_of(const std::string& kind);

// Reads the recipe's files and builds everything; writes nothing. Seeds LibTorch's generator with train.seed before the
// model draws its weights. Errors: kConfig for settings that do not fit each other, kInput for files (missing, empty,
// not UTF-8, shorter than a window, a tokenizer that does not fit the model of train.init …).
TrainParts load_train_parts(const TrainOptions& options);

struct MeasureOptions {
  std::string kind = "text";  // as in DataOptions
  std::vector<std::string> files;
  int64_t context = 0;  // 0: as many tokens as the model has positions
  int64_t batch_size = 32;
  std::string label_column = "first";
  bool cut_longer = false;  // labels: texts longer than `context` are cut
};

struct MeasuredData {
  std::shared_ptr<Dataset> data;  // every label once, in order
  int64_t characters = 0;         // code points that the labels stand for; 0 for pairs, labels and masked words
  double characters_per_token() const { return double(characters) / double(data->token_count()); }
};

// What evaluate() (loss/evaluate.h) needs to measure a model on files.
MeasuredData load_measured_data(const ModelImpl& model, const Tokenizer& tokenizer, const MeasureOptions& options);
// The same for a model that sees: images, prepared as its folder says. Uses `files` and `batch_size`.
std::shared_ptr<Dataset> load_measured_images(const ModelImpl& model, const ImageProcessor& prepare,
                                              const MeasureOptions& options);

}  // namespace fovea
