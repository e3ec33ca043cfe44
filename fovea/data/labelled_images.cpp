// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/labelled_images.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/random.h"
#include "fovea/data/sampler.h"
#include "fovea/io/images.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Apart from the streams of the images' order.
constexpr uint64_t kAugmentationStream = uint64_t{1} << 60;

// What a folder holds, hidden names left out, in order of their bytes.
std::vector<fs::path> visible_entries(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (!entry.path().filename().native().starts_with('.')) out.push_back(entry.path());
  FOVEA_CHECK_INPUT(!code, folder.native(), ": cannot list the folder: ", code.message());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_picture(const fs::path& file) {
  std::string ending = file.extension().native();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<LabelledImage> read_class_folders(const fs::path& folder) {
  std::vector<LabelledImage> out;
  std::error_code ignored;
  for (const fs::path& entry : visible_entries(folder)) {
    FOVEA_CHECK_INPUT(fs::is_directory(entry, ignored), entry.native(), ": stands in no class's folder; wanted ",
                      (folder / "CLASS" / entry.filename()).native());
    check_utf8(entry.filename().native(), entry.native());
    const size_t before = out.size();
    for (const fs::path& file : visible_entries(entry)) {
      FOVEA_CHECK_INPUT(is_picture(file) && !fs::is_directory(file, ignored), file.native(),
                        ": wanted a .png, .jpg or .jpeg file");
      out.push_back({.label = entry.filename().native(), .where = file.native()});
    }
    FOVEA_CHECK_INPUT(out.size() > before, entry.native(), ": holds no pictures");
  }
  FOVEA_CHECK_INPUT(!out.empty(), folder.native(), ": holds no pictures; wanted CLASS/*.png or CLASS/*.jpg");
  return out;
}

void replace_last(std::string& text, std::string_view from, std::string_view to) {
  if (const size_t at = text.rfind(from); at != std::string::npos) text.replace(at, from.size(), to);
}

at::Tensor read_idx_pictures(const fs::path& path) {
  const at::Tensor pictures = read_idx(path);
  FOVEA_CHECK_INPUT(pictures.dim() == 3, path.native(), ": an IDX file of shape ", pictures.sizes(),
                    ", wanted pictures [N, Y, X]");
  FOVEA_CHECK_INPUT(pictures.numel() > 0, path.native(), ": holds no pictures (its shape is ", pictures.sizes(), ")");
  return pictures;
}

std::vector<LabelledImage> read_idx_images(const fs::path& path) {
  std::string name = path.filename().native();
  if (!path_exists(path)) read_idx(path);  // says what is missing
  FOVEA_CHECK_INPUT(
      name.find("images") != std::string::npos, path.native(),
      ": an IDX file of pictures needs \"images\" in its name, so that the file of \"labels\" can be told");
  replace_last(name, "images", "labels");
  replace_last(name, "idx3", "idx1");
  const fs::path labels_path = path.parent_path() / name;
  const at::Tensor pictures = read_idx_pictures(path), labels = read_idx(labels_path);
  FOVEA_CHECK_INPUT(labels.dim() == 1 && labels.size(0) == pictures.size(0), labels_path.native(), ": has shape ",
                    labels.sizes(), ", wanted a class for each of the ", pictures.size(0), " pictures of ",
                    path.native());
  const auto numbers = labels.accessor<uint8_t, 1>();
  std::vector<LabelledImage> out;
  for (int64_t i = 0; i < numbers.size(0); ++i)
    out.push_back({.number = numbers[i],
                   .where = path.native() + ":" + std::to_string(i),
                   .pixels = pictures[i].unsqueeze(0)});  // [1, Y, X]
  return out;
}

// "file:12" where no file has this name.
std::optional<std::pair<std::string, int64_t>> numbered_picture(const std::string& name) {
  std::error_code ignored;
  const size_t colon = name.rfind(':');
  const bool digits = colon != std::string::npos && colon + 1 < name.size() && name.size() - colon <= 10 &&
                      name.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!digits || fs::exists(name, ignored)) return std::nullopt;
  return std::pair{name.substr(0, colon), int64_t(std::stoll(name.substr(colon + 1)))};
}

}  // namespace

bool is_class_number(const std::string& name) {
  return !name.empty() && name.size() <= 9 && name.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<LabelledImage> read_labelled_images(const fs::path& path) {
  std::error_code ignored;
  FOVEA_CHECK_INPUT(fs::exists(path, ignored), path.native(),
                    ": no such folder of CLASS/*.png or *.jpg, and no such IDX file");
  return fs::is_directory(path, ignored) ? read_class_folders(path) : read_idx_images(path);
}

std::vector<std::string> image_classes(const std::vector<LabelledImage>& images, const std::string& source) {
  std::set<std::string> names;
  std::set<int64_t> numbers;
  for (const LabelledImage& image : images)
    image.number < 0 ? void(names.insert(image.label)) : void(numbers.insert(image.number));
  FOVEA_CHECK_INPUT(names.empty() || numbers.empty(), source,
                    ": folders name their classes and IDX files number them; wanted one of the two");
  FOVEA_CHECK_INPUT(names.size() + numbers.size() >= 2, source, ": all ", images.size(), " images are of the class \"",
                    numbers.empty() ? images.front().label : std::to_string(images.front().number),
                    "\"; wanted at least two classes to tell apart");
  if (numbers.empty()) {
    std::vector<std::string> out(names.begin(), names.end());
    if (std::all_of(out.begin(), out.end(), is_class_number))
      std::sort(out.begin(), out.end(),
                [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
    return out;
  }
  std::vector<std::string> out;
  for (int64_t i = 0; i <= *numbers.rbegin(); ++i) out.push_back(std::to_string(i));
  return out;
}

at::Tensor read_picture(const std::string& name, int64_t channels) {
  const auto numbered = numbered_picture(name);
  if (!numbered) return read_image(name, channels);
  const auto& [file, number] = *numbered;
  const at::Tensor pictures = read_idx_pictures(file);
  FOVEA_CHECK_INPUT(number < pictures.size(0), name, ": the file has ", pictures.size(0), " pictures, counted from 0");
  return pixels_of({.where = name, .pixels = pictures[number].unsqueeze(0)}, channels);
}

at::Tensor pixels_of(const LabelledImage& image, int64_t channels) {
  if (!image.pixels.defined()) return read_image(image.where, channels);
  return image.pixels.expand({channels, -1, -1});
}

LabelledImages::LabelledImages(at::Tensor images, std::vector<int64_t> labels, ImageProcessor prepare,
                               const ImageBatchOptions& options, const std::string& source)
    : images_(images.contiguous()), labels_(std::move(labels)), prepare_(std::move(prepare)), options_(options) {
  FOVEA_CHECK_INPUT(!labels_.empty(), source, ": holds no images");
  FOVEA_CHECK(images_.dim() == 4 && images_.scalar_type() == at::kByte && images_.size(0) == int64_t(labels_.size()),
              "images are ", images_.scalar_type(), " ", images_.sizes(), ", wanted Byte [", labels_.size(),
              ", channels, Y, X]");
  FOVEA_CHECK_CONFIG(options_.batch_size >= 1, "batch_size is ", options_.batch_size, ", must be at least 1");
  check_augmentation(options_.augmentation);
}

int64_t LabelledImages::batch_count(int64_t) {
  return (int64_t(labels_.size()) + options_.batch_size - 1) / options_.batch_size;
}

const std::vector<int64_t>& LabelledImages::order(int64_t epoch) {
  if (order_epoch_ != epoch) {
    order_ = Sampler(int64_t(labels_.size()), options_.seed, options_.shuffle).order(epoch);
    order_epoch_ = epoch;
  }
  return order_;
}

Batch LabelledImages::batch(int64_t epoch, int64_t index) {
  FOVEA_CHECK(index >= 0 && index < batch_count(epoch), "batch ", index, " of ", batch_count(epoch));
  const int64_t begin = index * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size, int64_t(labels_.size()));
  std::vector<at::Tensor> rows;
  std::vector<int64_t> labels;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t item = order(epoch)[size_t(i)];
    const uint64_t seed = random_bits(options_.seed, kAugmentationStream + uint64_t(epoch), uint64_t(item));
    rows.push_back(options_.augmentation.any() ? augmented(images_[item], options_.augmentation, seed) : images_[item]);
    labels.push_back(labels_[size_t(item)]);
  }
  return {.images = prepare_.scaled(at::stack(rows)),  // [B, channels, Y, X]
          .labels = at::tensor(labels, at::kLong),     // [B]
          .tokens = end - begin};
}

uint64_t LabelledImages::fingerprint() const {
  Fingerprint out;
  const auto& [batch_size, shuffle, seed, augmentation] = options_;
  const auto& processor = prepare_.options();
  for (const uint64_t value : {uint64_t(batch_size), uint64_t(shuffle), seed, uint64_t(augmentation.shift)})
    out.add(value);
  for (const double value : {augmentation.flip, augmentation.erase}) out.add(uint64_t(std::llround(value * 1e9)));
  for (const auto& numbers : {processor.mean, processor.deviation})
    for (const double value : numbers) out.add(uint64_t(std::llround(value * 1e9)));
  for (const int64_t size : images_.sizes()) out.add(uint64_t(size));
  for (const int64_t label : labels_) out.add(uint64_t(label));
  const at::Tensor flat = images_.view({-1});
  const auto bytes = flat.accessor<uint8_t, 1>();
  uint64_t eight = 0;
  for (int64_t i = 0; i < bytes.size(0); ++i) {
    eight = eight << 8 | bytes[i];
    if (i % 8 == 7) out.add(eight);
  }
  out.add(eight);
  return out.value();
}

}  // namespace fovea
