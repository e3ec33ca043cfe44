// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/image_encoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/check.h"
#include "fovea/data/labelled_images.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/models/pretrained.h"

namespace fovea {
namespace {

bool is_image_config(const nlohmann::json& config) {
  return config.is_object() && config.contains("num_channels") && config.contains("image_size") &&
         config.contains("patch_size");
}

}  // namespace

std::optional<ImageShape> image_shape(const ModelImpl& model) {
  const nlohmann::json config = model.config();
  if (!is_image_config(config)) return std::nullopt;
  const auto axis = [&](const char* key, size_t i) {
    const nlohmann::json& size = config.at(key);
    return (size.is_array() ? size.at(i) : size).get<int64_t>();
  };
  ImageShape out{config["num_channels"].get<int64_t>(), axis("image_size", 0), axis("image_size", 1)};
  out.patch_height = axis("patch_size", 0);
  out.patch_width = axis("patch_size", 1);
  out.any_size = config.value("interpolate_pos_encoding", false);
  out.rows = out.height / out.patch_height;
  out.columns = out.width / out.patch_width;
  return out;
}

bool ImageEncoder::fits(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!path_exists(file)) return false;
  const nlohmann::json config = read_json(file, "model configuration");
  if (is_image_config(config)) return true;
  const auto type = config.is_object() ? config.find("model_type") : config.end();  // files leave out what is usual
  return type != config.end() && (*type == "vit" || *type == "fovea_vit");
}

ImageEncoder ImageEncoder::load(const std::filesystem::path& folder) {
  const Model model = load_pretrained_model(folder);
  const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(model);
  FOVEA_CHECK_INPUT(reader != nullptr && image_shape(*model), folder.native(), ": a ", model->type(),
                    " model does not read images");
  ImageEncoder out{reader, ImageProcessor::load(folder)};
  const ImageShape shape = out.shape();
  const ImageProcessorOptions& prepare = out.prepare.options();
  const auto fits = [&](const std::vector<double>& values) {
    return values.size() == 1 || int64_t(values.size()) == shape.channels;
  };
  FOVEA_CHECK_INPUT(
      !prepare.resize || shape.any_size || (prepare.height == shape.height && prepare.width == shape.width),
      folder.native(), ": preprocessor_config.json makes images of ", prepare.height, " x ", prepare.width,
      ", the model takes ", shape.height, " x ", shape.width, " (rows x columns)");
  FOVEA_CHECK_INPUT(!prepare.normalize || (fits(prepare.mean) && fits(prepare.deviation)), folder.native(),
                    ": preprocessor_config.json normalises ", prepare.mean.size(), " channels, the model has ",
                    shape.channels);
  return out;
}

Tensor ImageEncoder::read(const std::string& picture) const {
  const ImageShape wanted = shape();
  const Tensor pixels = read_picture(picture, wanted.channels);
  FOVEA_CHECK_INPUT(prepare.options().resize || wanted.any_size ||
                        (pixels.size(1) == wanted.height && pixels.size(2) == wanted.width),
                    picture, ": the image has ", pixels.size(1), " x ", pixels.size(2), " pixels, the model takes ",
                    wanted.height, " x ", wanted.width,
                    " (rows x columns), and its preprocessor_config.json does not resize");
  return pixels;
}

void ImageEncoder::save(const std::filesystem::path& folder) const {
  save_pretrained(*model, folder);
  prepare.save(folder);
}

std::vector<Classified> ImageEncoder::classify(const std::vector<Tensor>& images) const {
  FOVEA_CHECK_INPUT(model->head() == "classifier", "the model cannot classify images: its head is \"", model->head(),
                    "\", wanted \"classifier\"");
  const at::NoGradGuard no_gradient;
  const std::vector<std::string> labels = model->labels();
  std::vector<Classified> out;
  for (size_t begin = 0; begin < images.size(); begin += size_t(batch_size)) {
    const auto first = images.begin() + int64_t(begin);
    const auto last = images.begin() + int64_t(std::min(images.size(), begin + size_t(batch_size)));
    const Tensor logits = model->forward({.images = prepare(std::vector<Tensor>(first, last))});  // [B, N]
    const Tensor scores = model->scores(logits).cpu().contiguous();
    const auto rows = scores.accessor<float, 2>();
    for (int64_t b = 0; b < rows.size(0); ++b) {
      Classified is;
      for (int64_t i = 0; i < rows.size(1); ++i) is.scores.push_back(rows[b][i]);
      is.label = labels.at(size_t(std::max_element(is.scores.begin(), is.scores.end()) - is.scores.begin()));
      out.push_back(std::move(is));
    }
  }
  return out;
}

}  // namespace fovea
