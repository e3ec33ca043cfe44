// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/image_codecs.h"

namespace fovea {
namespace {

constexpr std::string_view kPngMagic("\x89PNG\r\n\x1a\n", 8), kJpegMagic("\xff\xd8\xff", 3), kGzipMagic("\x1f\x8b", 2);
constexpr int64_t kMostPixels = 1 << 27;  // 400 MB as RGB

// What a file that is no image looks like, for the error.
const char* kind_of_file(std::string_view bytes) {
  if (bytes.empty()) return "the file is empty";
  if (kPngMagic.starts_with(bytes.substr(0, 8)) || kJpegMagic.starts_with(bytes.substr(0, 3)))
    return "the file ends within its first bytes";
  if (bytes.starts_with("GIF8")) return "it is a GIF";
  if (bytes.starts_with("BM")) return "it looks like a BMP";
  if (bytes.starts_with("RIFF")) return "it looks like a WebP";
  if (bytes.starts_with("<")) return "it looks like a web page";
  if (bytes.starts_with("version ")) return "it looks like a Git LFS pointer: fetch the file itself";
  return "its first bytes are those of neither";
}

// [Y, X, 3] -> [Y, X, 1]: ITU-R BT.601 in 16-bit fixed point, rounded.
at::Tensor grey_of(const at::Tensor& rgb) {
  const at::Tensor wide = rgb.to(at::kInt);
  const at::Tensor sum = wide.select(2, 0) * 19595 + wide.select(2, 1) * 38470 + wide.select(2, 2) * 7471 + 32768;
  return sum.bitwise_right_shift(16).to(at::kByte).unsqueeze(2);
}

uint64_t big_endian(std::string_view bytes, size_t at) {
  uint64_t out = 0;
  for (size_t i = at; i < at + 4; ++i) out = out << 8 | static_cast<unsigned char>(bytes[i]);
  return out;
}

}  // namespace

void check_pixels(const std::string& name, double width, double height) {
  FOVEA_CHECK_INPUT(width * height <= double(kMostPixels), name, ": an image of ", width, " x ", height,
                    " pixels is larger than the ", kMostPixels, " pixels that are read");
}

at::Tensor decode_image(std::string_view bytes, const std::string& name, int64_t channels) {
  FOVEA_CHECK(channels == 0 || channels == 1 || channels == 3, "channels is ", channels, ", wanted 0, 1 or 3");
  const bool png = bytes.starts_with(kPngMagic);
  FOVEA_CHECK_INPUT(png || bytes.starts_with(kJpegMagic), name, ": wanted a PNG or JPEG image; ", kind_of_file(bytes));
  at::Tensor pixels = png ? decode_png(bytes, name) : decode_jpeg(bytes, name);  // [Y, X, 1 or 3]
  if (channels == 1 && pixels.size(2) == 3) pixels = grey_of(pixels);
  if (channels == 3) pixels = pixels.expand({-1, -1, 3});
  return pixels.permute({2, 0, 1}).contiguous();  // [channels, Y, X]
}

at::Tensor read_image(const std::filesystem::path& path, int64_t channels) {
  const MappedFile file(path, "image");
  return decode_image(file.bytes(), path.string(), channels);
}

at::Tensor read_idx(const std::filesystem::path& path) {
  const auto map = std::make_shared<MappedFile>(path, "IDX file");
  const std::string_view bytes = map->bytes();
  const std::string name = path.string();
  FOVEA_CHECK_INPUT(!bytes.starts_with(kGzipMagic), name, ": it is compressed by gzip; unpack it first");
  FOVEA_CHECK_INPUT(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0, name,
                    ": no IDX file (wanted two zero bytes, a type and a number of axes at its start)");
  FOVEA_CHECK_INPUT(bytes[2] == 8, name, ": IDX type ", int(static_cast<unsigned char>(bytes[2])),
                    " is not read, only 8 (unsigned bytes)");
  const size_t axes = static_cast<unsigned char>(bytes[3]), start = 4 + 4 * axes;
  FOVEA_CHECK_INPUT(axes >= 1 && axes <= 8, name, ": an IDX file of ", axes, " axes, wanted 1 to 8");
  FOVEA_CHECK_INPUT(bytes.size() >= start, name, ": the file ends within its ", start, " bytes of header");
  std::vector<int64_t> shape;
  uint64_t count = 1, extent = 1;  // `extent` ignores zeros: strides of an empty tensor must not overflow either
  for (size_t i = 0; i < axes; ++i) {
    const uint64_t size = big_endian(bytes, 4 + 4 * i);
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    FOVEA_CHECK_INPUT(size <= kMost / extent, name, ": the product of its sizes overflows 64 bits");
    extent *= std::max<uint64_t>(size, 1);
    count *= size;
    shape.push_back(int64_t(size));
  }
  FOVEA_CHECK_INPUT(count == bytes.size() - start, name, ": sizes ", at::IntArrayRef(shape), " want ", count,
                    " bytes of data, the file holds ", bytes.size() - start);
  return at::from_blob(
      map->data() + start, shape, [map](void*) {}, at::kByte);
}

}  // namespace fovea
