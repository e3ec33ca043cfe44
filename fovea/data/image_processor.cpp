// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/image_processor.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"

namespace fovea {
namespace {

constexpr const char* kProcessorFile = "preprocessor_config.json";
constexpr int64_t kBilinear = 2, kBicubic = 3;  // Pillow's numbers

struct ProcessorFields {
  bool do_resize = true, do_rescale = true, do_normalize = true, do_center_crop = false, do_pad = false;
  int64_t resample = kBilinear;
  double rescale_factor = 1 / 255.0;
  std::string image_processor_type, feature_extractor_type;

  void visit(FieldVisitor& v) {
    v.field("do_resize", do_resize);
    v.field("do_rescale", do_rescale);
    v.field("do_normalize", do_normalize);
    v.field("do_center_crop", do_center_crop);
    v.field("do_pad", do_pad);
    v.field("resample", resample);
    v.field("rescale_factor", rescale_factor);
    v.field("image_processor_type", image_processor_type);
    v.field("feature_extractor_type", feature_extractor_type);
  }
};

// {"height": 224, "width": 224}, or one number for both (older files).
void read_processor_size(const nlohmann::json& config, const std::string& where, ImageProcessorOptions& out) {
  const auto found = config.find("size");
  if (found == config.end() || found->is_null()) return;
  const auto number = [&](const nlohmann::json& value) {
    FOVEA_CHECK_INPUT(value.is_number_integer(), where, ": \"size\" is ", dump_json(*found),
                      R"(, wanted {"height": …, "width": …} or a number)");
    return value.get<int64_t>();
  };
  if (!found->is_object()) {
    out.height = out.width = number(*found);
    return;
  }
  out.height = number(found->value("height", nlohmann::json()));
  out.width = number(found->value("width", nlohmann::json()));
}

// A number for each channel, or one for all.
void read_channel_numbers(const nlohmann::json& config, const std::string& where, const char* key,
                          std::vector<double>& out) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return;
  out.clear();
  for (const auto& value : found->is_array() ? *found : nlohmann::json::array({*found})) {
    FOVEA_CHECK_INPUT(value.is_number(), where, ": \"", key, "\" is ", dump_json(*found), ", wanted numbers");
    out.push_back(value.get<double>());
  }
}

ImageProcessorOptions read_processor(const nlohmann::json& config, const std::string& where) {
  ProcessorFields fields;
  fill_from_json(fields, config, where, UnknownKeys::kIgnore);
  for (const auto& type : {fields.image_processor_type, fields.feature_extractor_type})
    FOVEA_CHECK_INPUT(type.empty() || type.starts_with("ViT"), where, ": a ", type,
                      " is not supported, only those of ViT");
  FOVEA_CHECK_INPUT(!fields.do_center_crop && !fields.do_pad, where, ": cropping and padding are not supported");
  FOVEA_CHECK_INPUT(fields.resample == kBilinear || fields.resample == kBicubic, where,
                    ": \"resample\": ", fields.resample, " is not supported, only 2 (bilinear) and 3 (bicubic)");
  ImageProcessorOptions out{.resize = fields.do_resize,
                            .filter = fields.resample == kBicubic ? "bicubic" : "bilinear",
                            .rescale = fields.do_rescale,
                            .factor = fields.rescale_factor,
                            .normalize = fields.do_normalize};
  read_processor_size(config, where, out);
  read_channel_numbers(config, where, "image_mean", out.mean);
  read_channel_numbers(config, where, "image_std", out.deviation);
  return out;
}

// [1 or channels] -> [channels, 1, 1]
at::Tensor channel_column(const std::vector<double>& numbers, int64_t channels, const char* what) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 || int64_t(numbers.size()) == channels,
                   "image processor: ", what, " has ", numbers.size(), " numbers, the image ", channels, " channels");
  return at::tensor(numbers, at::kFloat).view({-1, 1, 1});
}

}  // namespace

ImageProcessor::ImageProcessor(ImageProcessorOptions options) : options_(std::move(options)) {
  const auto& o = options_;
  FOVEA_CHECK_CONFIG(!o.resize || (o.height > 0 && o.width > 0 && o.height < 1 << 16 && o.width < 1 << 16),
                     "image processor: size is ", o.height, " x ", o.width, ", wanted 1 to 65535 each");
  FOVEA_CHECK_CONFIG(o.filter == "bilinear" || o.filter == "bicubic", "image processor: unknown filter \"", o.filter,
                     "\"", suggestion(o.filter, {"bilinear", "bicubic"}));
  for (const double d : o.deviation)
    FOVEA_CHECK_CONFIG(!o.normalize || d != 0, "image processor: a deviation of 0 cannot be divided by");
}

ImageProcessor ImageProcessor::load(const std::filesystem::path& folder) {
  const auto path = folder / kProcessorFile;
  const auto options = read_processor(read_json(path, "image processor"), path.string());
  try {
    return ImageProcessor(options);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInput, path.string() + ": " + error.what());
  }
}

void ImageProcessor::save(const std::filesystem::path& folder) const {
  const auto& o = options_;
  ProcessorFields fields{.do_resize = o.resize,
                         .do_rescale = o.rescale,
                         .do_normalize = o.normalize,
                         .resample = o.filter == "bicubic" ? kBicubic : kBilinear,
                         .rescale_factor = o.factor,
                         .image_processor_type = "ViTImageProcessor"};
  nlohmann::json config;
  write_to_json(fields, config);
  for (const char* unused : {"do_center_crop", "do_pad", "feature_extractor_type"}) config.erase(unused);
  config["size"] = {{"height", o.height}, {"width", o.width}};
  config["image_mean"] = o.mean;
  config["image_std"] = o.deviation;
  write_file(folder / kProcessorFile, dump_json(config, 2) + "\n");
}

at::Tensor ImageProcessor::operator()(const at::Tensor& image) const { return scaled(resized(image)); }

at::Tensor ImageProcessor::resized(const at::Tensor& image) const {
  const auto& o = options_;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, image.scalar_type() == at::kByte && image.dim() == 3 && image.numel() > 0,
                   "image processor: image is ", image.scalar_type(), " ", image.sizes(),
                   ", wanted Byte [channels, Y, X]");
  if (!o.resize || (image.size(1) == o.height && image.size(2) == o.width)) return image;
  const std::vector<int64_t> size{o.height, o.width};
  const at::Tensor x = image.unsqueeze(0);  // [1, channels, Y, X]
  const at::Tensor out =
      o.filter == "bicubic" ? at::_upsample_bicubic2d_aa(x, size, false) : at::_upsample_bilinear2d_aa(x, size, false);
  return out.squeeze(0);  // [channels, height, width]
}

at::Tensor ImageProcessor::scaled(const at::Tensor& pixels) const {
  const auto& o = options_;
  const int64_t channels = pixels.size(-3);
  at::Tensor x = pixels.to(at::kFloat);
  if (o.rescale) x = x * o.factor;
  if (o.normalize)
    x = (x - channel_column(o.mean, channels, "mean")) / channel_column(o.deviation, channels, "deviation");
  return x;
}

at::Tensor ImageProcessor::operator()(const std::vector<at::Tensor>& images) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !images.empty(), "image processor: no images");
  std::vector<at::Tensor> out;
  for (const auto& image : images) {
    out.push_back((*this)(image));
    FOVEA_CHECK_KIND(ErrorKind::kArgument, out.back().sizes() == out[0].sizes(), "image processor: image ",
                     out.size() - 1, " becomes ", out.back().sizes(), ", the first one ", out[0].sizes());
  }
  return at::stack(out);  // [B, channels, height, width]
}

}  // namespace fovea
