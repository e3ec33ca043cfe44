// ImageProcessor by hand; tests/parity/test_vit.py holds it against Pillow and transformers.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/image_processor.h"

#include <ATen/ATen.h>

#include "tests/io_support.h"

namespace fovea {
namespace {

using testing_support::error_of;

TEST(ImageProcessor, RescalesAndNormalisesByChannel) {
  const ImageProcessor prepare({.resize = false, .mean = {0, 0.5, 1}, .deviation = {1, 0.5, 2}});
  const auto x = prepare(at::tensor({0, 255, 51}).view({3, 1, 1}).to(at::kByte));
  EXPECT_TRUE(at::allclose(x.flatten(), at::tensor({0.0f, 1.0f, -0.4f})));
}

TEST(ImageProcessor, ShrinkingAveragesAndKeepsRowsAndColumnsApart) {
  const ImageProcessor prepare({.height = 2, .width = 3, .rescale = false, .normalize = false});
  // Every pixel of a third of the columns is alike, and so is every pixel of a half of the rows.
  auto image = at::zeros({1, 40, 60}, at::kByte);
  image.slice(1, 20).slice(2, 0, 20) = 100;
  image.slice(2, 40) = 200;
  const auto x = prepare(image);  // [1, 2, 3]
  ASSERT_EQ(x.sizes(), (std::vector<int64_t>{1, 2, 3}));
  // A triangle of two new pixels' width: 1/8 of each neighbour, less at the edges, where it is cut.
  EXPECT_LT(x[0][0][0].item<float>(), 20);
  EXPECT_GT(x[0][1][0].item<float>(), 70);
  EXPECT_GT(x[0][0][2].item<float>(), 160);
  EXPECT_NEAR(x[0][0][1].item<float>(), 0.125 * 200 + 0.125 * x[0][0][0].item<float>(), 4);
}

TEST(ImageProcessor, ImagesBecomeABatch) {
  const ImageProcessor prepare({.height = 4, .width = 6});
  const auto one = at::full({3, 9, 5}, 30, at::kByte), two = at::full({3, 4, 6}, 60, at::kByte);
  const auto x = prepare({one, two});
  ASSERT_EQ(x.sizes(), (std::vector<int64_t>{2, 3, 4, 6}));
  EXPECT_TRUE(at::allclose(x[0], at::full({3, 4, 6}, 30 / 127.5 - 1)));
  EXPECT_TRUE(at::equal(x[1], prepare(two)));
}

TEST(ImageProcessor, WrongImagesAndOptions) {
  const ImageProcessor prepare, keeps_size({.resize = false});
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { prepare(at::zeros({3, 4, 4})); }), "wanted Byte");
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { prepare(at::zeros({4, 4}, at::kByte)); }), "wanted Byte [channels");
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { prepare(at::zeros({3, 0, 4}, at::kByte)); }), "[3, 0, 4]");
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { prepare(at::zeros({1, 4, 4}, at::kByte)); }), "the image 1 channels");
  EXPECT_HAS(error_of(ErrorKind::kArgument, [&] { prepare(std::vector<at::Tensor>{}); }), "no images");
  EXPECT_HAS(error_of(ErrorKind::kArgument,
                      [&] {
                        keeps_size({at::zeros({3, 4, 4}, at::kByte), at::zeros({3, 4, 5}, at::kByte)});
                      }),
             "image 1 becomes [3, 4, 5]");
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { ImageProcessor({.height = 0}); }), "size is 0 x 224");
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { ImageProcessor({.filter = "bicubik"}); }), "bicubic");
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { ImageProcessor({.deviation = {1, 0, 1}}); }), "deviation of 0");
}

struct ImageProcessorFolder : testing_support::ScratchTest {};

TEST_F(ImageProcessorFolder, ComesBackAsItWasSaved) {
  const ImageProcessorOptions wanted{.height = 5,
                                     .width = 7,
                                     .filter = "bicubic",
                                     .rescale = false,
                                     .factor = 0.25,
                                     .normalize = true,
                                     .mean = {0.1},
                                     .deviation = {0.7}};
  ImageProcessor(wanted).save(folder.path());
  const auto back = ImageProcessor::load(folder.path()).options();
  EXPECT_EQ(back.height, 5);
  EXPECT_EQ(back.width, 7);
  EXPECT_EQ(back.filter, "bicubic");
  EXPECT_FALSE(back.rescale);
  EXPECT_EQ(back.factor, 0.25);
  EXPECT_EQ(back.mean, wanted.mean);
  EXPECT_EQ(back.deviation, wanted.deviation);
}

TEST_F(ImageProcessorFolder, BrokenFilesAreErrors) {
  const auto says = [&](const std::string& json, const char* part) {
    put("preprocessor_config.json", json);
    EXPECT_HAS(error_of(ErrorKind::kInput, [&] { ImageProcessor::load(folder.path()); }), part);
  };
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { ImageProcessor::load(folder.path()); }), "no such image processor");
  says("[]", "preprocessor_config.json");
  says("{\"do_resize\": 3}", "do_resize");
  says("{\"size\": [3, 3]}", "\"size\" is [3,3]");
  says("{\"size\": {\"height\": 3}}", "\"size\" is");
  says("{\"size\": -3}", "size is -3 x -3");
  says("{\"size\": {\"height\": 3, \"width\": 9223372036854775807}}", "wanted 1 to 65535");
  says("{\"image_std\": 0}", "deviation of 0");
  says("{\"image_mean\": [\"a\"]}", "image_mean");
}

}  // namespace
}  // namespace fovea
