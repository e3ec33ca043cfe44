// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/image_codecs.h"
#include "fovea/io/images.h"

namespace fovea {
namespace {

// What libpng's callbacks reach. No part of it has a destructor, and none of the functions that a longjmp leaves.
struct PngSource {
  const char* next;
  size_t left;
  char message[160];
};

struct PngSize {
  size_t width, height, bits, channels, row_bytes;  // bits: of a stored pixel; the others after conversion
  int passes;
};

[[noreturn]] void png_on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof source->message, "%s", message);
  png_longjmp(png, 1);
}

void png_on_warning(png_structp, png_const_charp) {}  // of chunks that do not change the pixels

void png_on_read(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file is cut short");
  std::memcpy(to, source->next, count);
  source->next += count;
  source->left -= count;
}

bool png_begin(png_structp png, png_infop info, PngSize* size) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  size->bits = size_t{png_get_bit_depth(png, info)} * png_get_channels(png, info);
  // Whole bytes of grey or RGB, whatever was stored.
  const png_byte type = png_get_color_type(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  size->passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  size->width = png_get_image_width(png, info);
  size->height = png_get_image_height(png, info);
  size->channels = png_get_channels(png, info);
  size->row_bytes = png_get_rowbytes(png, info);
  return true;
}

bool png_rows(png_structp png, const PngSize* size, png_bytep pixels) {
  if (setjmp(png_jmpbuf(png))) return false;
  for (int pass = 0; pass < size->passes; ++pass)
    for (size_t y = 0; y < size->height; ++y) png_read_row(png, pixels + y * size->row_bytes, nullptr);
  png_read_end(png, nullptr);
  return true;
}

class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : source_{bytes.data(), bytes.size(), ""} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, png_on_error, png_on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    FOVEA_CHECK_KIND(ErrorKind::kSystem, info_ != nullptr, "libpng does not start: out of memory, or another version");
    png_set_read_fn(png_, &source_, png_on_read);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  bool begin(PngSize& size) { return png_begin(png_, info_, &size); }
  bool rows(const PngSize& size, uint8_t* pixels) { return png_rows(png_, &size, pixels); }
  const char* message() const { return source_.message; }

 private:
  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

at::Tensor decode_png(std::string_view bytes, const std::string& name) {
  PngReader reader(bytes);
  PngSize size{};
  FOVEA_CHECK_INPUT(reader.begin(size), name, ": broken PNG: ", reader.message());
  check_pixels(name, double(size.width), double(size.height));
  // Deflate makes at most 1032 bytes of one.
  const double stored = double(size.height) * (double(size.width) * double(size.bits) / 8);
  FOVEA_CHECK_INPUT(stored <= 1032.0 * double(bytes.size()), name, ": broken PNG: ", size.width, " x ", size.height,
                    " pixels cannot come from ", bytes.size(), " bytes; the file is cut short");
  const auto pixels =
      at::empty({int64_t(size.height), int64_t(size.width), int64_t(size.channels)}, at::kByte);  // [Y, X, 1 or 3]
  FOVEA_ASSERT(size.channels == 1 || size.channels == 3, size.channels, " channels");
  FOVEA_ASSERT(size.row_bytes == size.width * size.channels, "rows of ", size.row_bytes, " bytes");
  FOVEA_CHECK_INPUT(reader.rows(size, pixels.data_ptr<uint8_t>()), name, ": broken PNG: ", reader.message());
  return pixels;
}

void write_png(const std::filesystem::path& path, const at::Tensor& image) {
  FOVEA_CHECK(image.scalar_type() == at::kByte && image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3) &&
                  image.numel() > 0 && image.size(1) <= PNG_UINT_31_MAX && image.size(2) <= PNG_UINT_31_MAX,
              "image is ", image.scalar_type(), " ", image.sizes(), ", wanted Byte [1 or 3, Y, X]");
  const at::Tensor pixels = image.permute({1, 2, 0}).cpu().contiguous();  // [Y, X, channels]
  png_image target{};
  target.version = PNG_IMAGE_VERSION;
  target.width = png_uint_32(pixels.size(1));
  target.height = png_uint_32(pixels.size(0));
  target.format = pixels.size(2) == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(target), '\0');
  png_alloc_size_t size = bytes.size();
  const int written =
      png_image_write_to_memory(&target, bytes.data(), &size, 0, pixels.data_ptr<uint8_t>(), 0, nullptr);
  FOVEA_CHECK_KIND(ErrorKind::kSystem, written != 0, path.string(), ": cannot write: ", target.message);
  write_file(path, std::string_view(bytes).substr(0, size));
}

}  // namespace fovea
