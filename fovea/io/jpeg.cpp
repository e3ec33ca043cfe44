// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which uses FILE

#include "fovea/base/check.h"
#include "fovea/io/image_codecs.h"

namespace fovea {
namespace {

// A progressive file refines its picture scan by scan, each over the whole of it: a few bytes could cost hours.
constexpr int kMostScans = 100;

// No part of it has a destructor, and none of the functions that a longjmp leaves.
struct JpegReader {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

JpegReader* jpeg_reader(j_common_ptr info) { return static_cast<JpegReader*>(info->client_data); }

[[noreturn]] void jpeg_on_error(j_common_ptr info) {
  info->err->format_message(info, jpeg_reader(info)->message);
  std::longjmp(jpeg_reader(info)->back, 1);
}

// Level −1 is damaged data, in whose place libjpeg would invent some. Bytes between markers are only superfluous.
void jpeg_on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) jpeg_on_error(info);
}

void jpeg_on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  std::snprintf(jpeg_reader(info)->message, sizeof jpeg_reader(info)->message, "more than %d scans", kMostScans);
  std::longjmp(jpeg_reader(info)->back, 1);
}

bool jpeg_begin(JpegReader* reader, const char* bytes, size_t size) {
  reader->info.err = jpeg_std_error(&reader->errors);
  reader->errors.error_exit = jpeg_on_error;
  reader->errors.emit_message = jpeg_on_message;
  reader->info.client_data = reader;
  if (setjmp(reader->back)) return false;
  jpeg_create_decompress(&reader->info);
  reader->progress.progress_monitor = jpeg_on_progress;
  reader->info.progress = &reader->progress;
  jpeg_mem_src(&reader->info, reinterpret_cast<const unsigned char*>(bytes), size);
  jpeg_read_header(&reader->info, TRUE);
  return true;
}

bool jpeg_rows(JpegReader* reader, JSAMPLE* pixels) {
  if (setjmp(reader->back)) return false;
  jpeg_start_decompress(&reader->info);
  const size_t row_bytes = size_t{reader->info.output_width} * size_t(reader->info.output_components);
  while (reader->info.output_scanline < reader->info.output_height) {
    JSAMPROW row = pixels + reader->info.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader->info, &row, 1);
  }
  jpeg_finish_decompress(&reader->info);
  return true;
}

}  // namespace

at::Tensor decode_jpeg(std::string_view bytes, const std::string& name) {
  struct Closing : JpegReader {
    ~Closing() { jpeg_destroy_decompress(&info); }  // does nothing where nothing began
  } reader{};
  const auto check = [&](bool good) { FOVEA_CHECK_INPUT(good, name, ": broken JPEG: ", reader.message); };
  check(jpeg_begin(&reader, bytes.data(), bytes.size()));
  auto& info = reader.info;
  const bool grey = info.num_components == 1;
  FOVEA_CHECK_INPUT(grey || info.jpeg_color_space == JCS_YCbCr || info.jpeg_color_space == JCS_RGB, name,
                    ": a JPEG of ", info.num_components, " components (CMYK?) is not read, only grey and RGB");
  const double width = info.image_width, height = info.image_height;
  check_pixels(name, width, height);
  // Huffman codes have a bit or more for each block of 8 x 8.
  FOVEA_CHECK_INPUT(info.arith_code || width * height <= 512.0 * double(bytes.size()), name, ": broken JPEG: ", width,
                    " x ", height, " pixels cannot come from ", bytes.size(), " bytes; the file is cut short");
  info.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  const auto pixels = at::empty({int64_t(info.image_height), int64_t(info.image_width), grey ? 1 : 3}, at::kByte);
  check(jpeg_rows(&reader, pixels.data_ptr<uint8_t>()));
  return pixels;  // [Y, X, 1 or 3]
}

}  // namespace fovea
