// PNG (its checksums repaired, or no damage would come past them), JPEG and IDX files.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/images.h"

#include <ATen/ATen.h>

#include "fovea/io/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/small_images.h"

namespace fovea::fuzz {

static Target images_target() {
  const auto path = scratch("image");
  const auto png = [&](int64_t channels, int64_t Y, int64_t X) {
    write_png(path, at::arange(channels * Y * X).mul(37).remainder(251).view({channels, Y, X}).to(at::kByte));
    return read_file(path);
  };
  return {.corpus = {png(3, 9, 7), png(1, 20, 3), png(3, 1, 1), std::string(kGreyJpeg), std::string(kColourJpeg),
                     std::string("\0\0\x08\x03\0\0\0\2\0\0\0\3\0\0\0\1abcdef", 22)},
          // Of PNG: chunks, and a palette's type; of JPEG: markers of frames, tables, restarts, scans.
          .words = {"IHDR", "PLTE", "tRNS", "IDAT", "IEND", "\xff\xc0", "\xff\xc2", "\xff\xc4", "\xff\xc9", "\xff\xcc",
                    "\xff\xd0", "\xff\xd9", "\xff\xda", "\xff\xdb", "\xff\xdd", "\xff\xee"},
          .read = [path](std::string input) {
            if (input.starts_with(std::string(2, '\0'))) {
              put(path, input);
              const auto numbers = read_idx(path);
              expect(numbers.numel() <= int64_t(input.size()), "more numbers than bytes");
              numbers.clone();  // reads every byte
              return;
            }
            if (input.starts_with("\x89PNG")) repair_png(input);
            for (const int64_t channels : {0, 1, 3}) {
              const auto pixels = decode_image(input, "image", channels);
              expect(pixels.dim() == 3 && pixels.numel() > 0 && (channels == 0 || pixels.size(0) == channels),
                     "no image");
            }
          }};
}

static const Registered images("images", images_target);

}  // namespace fovea::fuzz
