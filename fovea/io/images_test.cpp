// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/images.h"

#include <ATen/ATen.h>

#include "tests/io_support.h"
#include "tests/small_images.h"

namespace fovea {
namespace {

using testing_support::error_of;

// Numbers that differ along every axis.
at::Tensor some_pixels(int64_t channels, int64_t Y, int64_t X) {
  return at::arange(channels * Y * X).mul(37).remainder(251).view({channels, Y, X}).to(at::kByte);
}

struct Images : testing_support::ScratchTest {
  std::string png(const at::Tensor& pixels) const {
    write_png(at("image.png"), pixels);
    return read_file(at("image.png"));
  }
  // The error of reading `bytes`, which must name the file.
  static std::string error(std::string_view bytes) {
    const std::string message = error_of(ErrorKind::kInput, [&] { decode_image(bytes, "cat.png"); });
    EXPECT_EQ(message.find("cat.png: "), 0u) << message;
    return message;
  }
};

TEST_F(Images, PngComesBackAsItWas) {
  for (const auto& pixels :
       {some_pixels(3, 5, 7), some_pixels(1, 4, 9), some_pixels(3, 1, 1), some_pixels(3, 300, 2)}) {
    png(pixels);
    const auto back = read_image(at("image.png"), 0);
    EXPECT_TRUE(at::equal(back, pixels));
    EXPECT_TRUE(back.is_contiguous());
  }
  const auto strided = some_pixels(7, 5, 3).permute({2, 1, 0});
  png(strided);
  EXPECT_TRUE(at::equal(read_image(at("image.png")), strided));
}

TEST_F(Images, ChannelsAreConverted) {
  const auto grey = some_pixels(1, 3, 4);
  EXPECT_TRUE(at::equal(decode_image(png(grey), "x", 3), grey.expand({3, -1, -1})));
  const auto colour = at::tensor({255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}).view({4, 1, 3}).permute({2, 1, 0});
  const auto luma = decode_image(png(colour.to(at::kByte)), "x", 1);
  EXPECT_TRUE(at::equal(luma, at::tensor({76, 150, 29, 18}).view({1, 1, 4}).to(at::kByte)));  // 0.299, 0.587, 0.114
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { decode_image(png(grey), "x", 4); }), "channels is 4");
}

TEST_F(Images, JpegIsRead) {
  const auto grey = decode_image(kGreyJpeg, "x", 0);
  EXPECT_TRUE(at::equal(grey, at::full({1, 8, 8}, 200, at::kByte)));
  const auto colour = decode_image(kColourJpeg, "x").to(at::kInt);
  ASSERT_EQ(colour.sizes(), (std::vector<int64_t>{3, 10, 17}));
  EXPECT_LE((colour - at::tensor({220, 40, 90}, at::kInt).view({3, 1, 1})).abs().max().item<int>(), 3);
}

TEST_F(Images, ACutFileIsAnErrorWhereverItEnds) {
  for (const std::string& whole : {png(some_pixels(3, 9, 11)), std::string(kGreyJpeg), std::string(kColourJpeg)}) {
    EXPECT_NO_THROW(decode_image(whole, "x"));
    for (size_t size = 0; size < whole.size(); ++size) error(std::string_view(whole).substr(0, size));
  }
}

TEST_F(Images, DamageIsAnError) {
  std::string bytes = png(some_pixels(3, 9, 11));
  const size_t data = bytes.find("IDAT") + 10;
  bytes[data] = char(bytes[data] ^ 1);
  EXPECT_HAS(error(bytes), "broken PNG");
  std::string jpeg(kGreyJpeg);
  jpeg.replace(jpeg.size() - 6, 4, "\xff\xd9\xff\xd9", 4);  // ends before its last block
  EXPECT_HAS(error(jpeg), "broken JPEG");
}

TEST_F(Images, SizesAreCheckedBeforeMemoryIsTaken) {
  std::string bytes = png(some_pixels(1, 2, 2));
  const auto with_size = [&](std::string_view big_endian) {
    std::string changed = bytes;
    changed.replace(16, 8, big_endian);  // IHDR: width, height
    repair_png(changed);                 // the checksum: only the size shall be wrong
    return changed;
  };
  EXPECT_HAS(error(with_size({"\x00\x04\x00\x00\x00\x04\x00\x00", 8})), "larger than");
  EXPECT_HAS(error(with_size({"\x00\x00\x20\x00\x00\x00\x20\x00", 8})), "cannot come from");
  EXPECT_HAS(error(with_size({"\x7f\xff\xff\xff\x7f\xff\xff\xff", 8})), "broken PNG");  // beyond libpng's own limit
  EXPECT_HAS(error(with_size({"\x00\x00\x00\x00\x00\x00\x00\x02", 8})), "broken PNG");
  std::string jpeg(kGreyJpeg);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\x20\x00\x20\x00", 4);
  EXPECT_HAS(error(jpeg), "cannot come from");
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_HAS(error(jpeg), "larger than");
  jpeg.replace(frame + 5, 4, "\x00\x00\x00\x00", 4);
  EXPECT_HAS(error(jpeg), "broken JPEG");
}

TEST_F(Images, OtherFilesSayWhatTheyAre) {
  EXPECT_HAS(error(""), "the file is empty");
  EXPECT_HAS(error("\x89PN"), "ends within its first bytes");
  EXPECT_HAS(error("GIF89a........"), "GIF");
  EXPECT_HAS(error("<!DOCTYPE html>"), "web page");
  EXPECT_HAS(error("some text"), "those of neither");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { read_image(at("none.png")); }), "no such image");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { read_image(folder.path()); }), "is a folder");
}

TEST_F(Images, OnlyPixelsAreWritten) {
  for (const auto& wrong : {at::zeros({3, 2, 2}), at::zeros({2, 2, 2}, at::kByte), at::zeros({2, 2}, at::kByte),
                            at::zeros({3, 0, 2}, at::kByte)})
    EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { write_png(at("x.png"), wrong); }), "wanted Byte [1 or 3, Y, X]");
  EXPECT_EQ(entries(), 0);
}

TEST_F(Images, IdxHasItsShape) {
  put("images", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\3\0\0\0\1", 16) + "abcdef");
  const auto images = read_idx(at("images"));
  EXPECT_TRUE(at::equal(images, at::tensor({97, 98, 99, 100, 101, 102}).view({2, 3, 1}).to(at::kByte)));
  put("none", std::string("\0\0\x08\x02\0\0\0\0\0\0\0\5", 12));
  EXPECT_EQ(read_idx(at("none")).sizes(), (std::vector<int64_t>{0, 5}));
}

TEST_F(Images, BrokenIdxIsAnError) {
  const auto says = [&](const std::string& bytes, const char* part) {
    put("x", bytes);
    EXPECT_HAS(error_of(ErrorKind::kInput, [&] { read_idx(at("x")); }), part);
  };
  says("", "no IDX file");
  says("abcdefgh", "no IDX file");
  says("\x1f\x8b....", "gzip");
  says(std::string("\0\0\x0d\x01\0\0\0\1....", 12), "IDX type 13");
  says(std::string("\0\0\x08\0", 4), "0 axes");
  says(std::string("\0\0\x08\xff", 4), "255 axes");
  says(std::string("\0\0\x08\x02\0\0\0\1", 8), "12 bytes of header");
  says(std::string("\0\0\x08\x01\0\0\0\3ab", 10), "want 3 bytes of data, the file holds 2");
  says(std::string("\0\0\x08\x01\0\0\0\1ab", 10), "want 1 bytes of data, the file holds 2");
  says(std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16), "overflows");
  says(std::string("\0\0\x08\x04\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20), "overflows");
}

}  // namespace
}  // namespace fovea
