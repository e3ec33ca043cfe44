// Images: from a recipe's folders and files to a model, its preparation of pictures and batches.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/log.h"
#include "fovea/base/nearest.h"
#include "fovea/io/files.h"
#include "fovea/models/image_encoder.h"
#include "fovea/models/pretrained.h"
#include "fovea/train/cuts.h"

namespace fovea {
namespace {

int64_t class_of(const LabelledImage& image, const std::vector<std::string>& names) {
  if (image.number >= 0) {
    const bool named_by_numbers = std::all_of(names.begin(), names.end(), is_class_number);
    const auto named = std::find(names.begin(), names.end(), std::to_string(image.number));
    if (named_by_numbers && named != names.end()) return named - names.begin();
    FOVEA_CHECK_INPUT(!named_by_numbers, image.where, ": the model knows no class \"", image.number, "\"");
    FOVEA_CHECK_INPUT(image.number < int64_t(names.size()), image.where, ": is of class ", image.number,
                      ", the model knows ", names.size(), " classes, counted from 0");
    return image.number;
  }
  const auto found = std::find(names.begin(), names.end(), image.label);
  FOVEA_CHECK_INPUT(found != names.end(), image.where, ": the model knows no class \"", image.label, "\"",
                    suggestion(image.label, names));
  return found - names.begin();
}

// All pictures [N, channels, Y, X], of the size that the model takes.
at::Tensor read_all(const Corpus& corpus, const ImageShape& shape, const ImageProcessor& prepare, bool resize) {
  std::vector<at::Tensor> out;
  out.reserve(corpus.images.size());
  for (const LabelledImage& image : corpus.images) {
    at::Tensor pixels = pixels_of(image, shape.channels);
    const bool fits = pixels.size(1) == shape.height && pixels.size(2) == shape.width;
    FOVEA_CHECK_INPUT(fits || resize, image.where, ": the image has ", pixels.size(1), " x ", pixels.size(2),
                      " pixels, the model takes ", shape.height, " x ", shape.width,
                      "; in training, data.resize = true resizes such images");
    out.push_back(prepare.resized(pixels));
    FOVEA_CHECK_INPUT(out.back().size(1) == shape.height && out.back().size(2) == shape.width, image.where,
                      ": the image has ", pixels.size(1), " x ", pixels.size(2), " pixels, the model takes ",
                      shape.height, " x ", shape.width, ", and its preprocessor_config.json does not resize to that");
  }
  return at::stack(out);
}

std::shared_ptr<Dataset> cut_images(const Corpus& corpus, const EncoderModelImpl& model, const ImageProcessor& prepare,
                                    bool resize, const ImageBatchOptions& options) {
  std::vector<int64_t> classes;
  const std::vector<std::string> names = model.labels();
  for (const LabelledImage& image : corpus.images) classes.push_back(class_of(image, names));
  at::Tensor images = read_all(corpus, image_shape(model).value(), prepare, resize);
  return std::make_shared<LabelledImages>(std::move(images), std::move(classes), prepare, options, corpus.source);
}

// The model that train.init names, under a classifier for these labels: its own where that fits.
EncoderModel image_model_of_folder(const TrainOptions& options, const std::vector<std::string>& labels, bool numbered) {
  const Model model = load_pretrained_model(options.train.init);
  const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(model);
  FOVEA_CHECK_INPUT(reader != nullptr && image_shape(*model), options.train.init, ": a ", model->type(),
                    " model does not see, which the data's kind \"images\" asks for");
  std::vector<std::string> known = reader->labels();
  const bool enough = numbered && known.size() >= labels.size();  // numbers fit any names
  std::sort(known.begin(), known.end());
  if (reader->head() == "classifier" && (enough || known == labels)) return reader;
  log("train", detail::concat(options.train.init, ": the head \"", reader->head(), "\" gives way to a new classifier"));
  at::manual_seed(uint64_t(options.train.seed));
  return reader->with_head("classifier", labels);
}

EncoderModel make_image_model(const TrainOptions& options, const Corpus& corpus) {
  const std::vector<std::string> labels = image_classes(corpus.images, corpus.source);
  if (!options.train.init.empty()) return image_model_of_folder(options, labels, corpus.images.front().number >= 0);
  FOVEA_CHECK_CONFIG(options.model.recipe != nullptr, "model.type is empty; name a model",
                     suggestion("", models_registry().names()));
  const nlohmann::json config = options.model.recipe->image_config(labels);
  at::manual_seed(uint64_t(options.train.seed));
  return std::dynamic_pointer_cast<EncoderModelImpl>(make_model(config));
}

ImageProcessor make_processor(const TrainOptions& options, const ImageShape& shape) {
  const std::filesystem::path init = options.train.init;
  if (!init.empty() && path_exists(init / "preprocessor_config.json")) return ImageProcessor::load(init);
  const std::vector<double> half(size_t(shape.channels), 0.5);
  return ImageProcessor({.height = shape.height, .width = shape.width, .mean = half, .deviation = half});
}

}  // namespace

TrainParts load_image_parts(const TrainOptions& options) {
  const DataOptions& data = options.data;
  Corpus train = read_corpus(data.kind, data.train, "images"), validation;
  if (!data.validation.empty()) validation = read_corpus(data.kind, data.validation, "images");
  if (data.validation_fraction > 0) validation = cut_validation(train, data.validation_fraction);

  const EncoderModel model = make_image_model(options, train);
  TrainParts out{.model = model};
  const ImageShape shape = image_shape(*model).value();
  FOVEA_CHECK_CONFIG(shape.channels == 1 || shape.channels == 3, "the model takes images of ", shape.channels,
                     " channels; files are read as 1 (grey) or 3");
  FOVEA_CHECK_CONFIG(data.shift < std::min(shape.height, shape.width), "data.shift is ", data.shift,
                     ", the model's images are ", shape.height, " x ", shape.width, ": nothing of them may be left");
  out.prepare = make_processor(options, shape);
  const ImageBatchOptions batches{.batch_size = options.optim.batch_size,
                                  .shuffle = true,
                                  .seed = uint64_t(options.train.seed),
                                  .augmentation = {data.flip, data.shift, data.erase}};
  out.train = cut_images(train, *model, *out.prepare, data.resize, batches);
  if (!validation.empty())
    out.validation =
        cut_images(validation, *model, *out.prepare, data.resize, {.batch_size = options.train.validate_batch_size});
  return out;
}

std::shared_ptr<Dataset> load_measured_images(const ModelImpl& model, const ImageProcessor& prepare,
                                              const MeasureOptions& options) {
  FOVEA_CHECK(!options.files.empty(), "no folder or file to measure on");
  FOVEA_CHECK_CONFIG(options.kind == "images", "the data's kind is \"", options.kind, "\", a ", model.type(),
                     " model reads images");
  const auto* reader = dynamic_cast<const EncoderModelImpl*>(&model);
  FOVEA_CHECK_INPUT(reader != nullptr && reader->head() == "classifier", "the model does not classify images");
  return cut_images(read_corpus("images", options.files, "images"), *reader, prepare, true,
                    {.batch_size = options.batch_size});
}

}  // namespace fovea
