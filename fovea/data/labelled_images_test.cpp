// Pictures from folders and IDX files: their order, their classes, the errors that name a file; and batches.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/labelled_images.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/io/images.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

using testing_support::error_of;

std::string idx_bytes(const std::vector<int64_t>& shape, const std::string& data) {
  std::string out{0, 0, 8, char(shape.size())};
  for (const int64_t size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) out += char(size >> shift);
  return out + data;
}

struct ImageFiles : testing_support::ScratchTest {
  void picture(const std::string& name, int value, int64_t channels = 1) const {
    std::filesystem::create_directories(at(name).parent_path());
    write_png(at(name), at::full({channels, 2, 3}, value, at::kByte));
  }
  std::string error(const std::string& name) const {
    const std::string message = error_of(ErrorKind::kInput, [&] { read_labelled_images(at(name)); });
    EXPECT_HAS(message, at("").native());
    return message;
  }
};

TEST_F(ImageFiles, FoldersAreClassesInOrderOfTheirNames) {
  for (const char* name : {"a/shoe/b.png", "a/shoe/a.PNG", "a/bag/10.png", "a/bag/9.jpeg", "a/.git/x.txt"})
    picture(name, 5);
  put("a/shoe/.thumbs", "x");
  const auto images = read_labelled_images(at("a"));
  std::vector<std::string> found;
  for (const auto& image : images)
    found.push_back(image.label + ":" + std::filesystem::path(image.where).filename().native());
  EXPECT_EQ(found, (std::vector<std::string>{"bag:10.png", "bag:9.jpeg", "shoe:a.PNG", "shoe:b.png"}));
  EXPECT_EQ(image_classes(images, "a"), (std::vector<std::string>{"bag", "shoe"}));
  EXPECT_EQ(pixels_of(images[0], 3).sizes(), (std::vector<int64_t>{3, 2, 3}));
  EXPECT_EQ(pixels_of(images[0], 1).sum().item<int64_t>(), 30);
}

TEST_F(ImageFiles, WrongFoldersAreNamed) {
  picture("loose/a.png", 1);
  EXPECT_HAS(error("loose"), "loose/a.png: stands in no class's folder; wanted");
  picture("text/cat/a.png", 1), put("text/cat/notes.txt", "x");
  EXPECT_HAS(error("text"), "text/cat/notes.txt: wanted a .png, .jpg or .jpeg file");
  picture("deep/cat/b.png/a.png", 1);
  EXPECT_HAS(error("deep"), "deep/cat/b.png: wanted a .png");
  picture("empty/cat/a.png", 1), std::filesystem::create_directories(at("empty/dog"));
  EXPECT_HAS(error("empty"), "empty/dog: holds no pictures");
  std::filesystem::create_directories(at("none"));
  EXPECT_HAS(error("none"), "none: holds no pictures; wanted CLASS/*.png");
  EXPECT_HAS(error("missing-images"), "missing-images");
  picture("one/cat/a.png", 1), picture("one/cat/b.png", 1);
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { image_classes(read_labelled_images(at("one")), "one"); }),
             "one: all 2 images are of the class \"cat\"");
  picture("broken/cat/a.png", 1), put("broken/cat/b.png", "\x89PNG\r\n\x1a\nno more");
  const auto broken = read_labelled_images(at("broken"));
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { pixels_of(broken[1], 1); }), "broken/cat/b.png: ");
}

TEST_F(ImageFiles, IdxFilesComeInTwos) {
  put("train-images-idx3-ubyte", idx_bytes({3, 1, 2}, "abcdef"));
  put("train-labels-idx1-ubyte", idx_bytes({3}, std::string{2, 0, 2}));
  const auto images = read_labelled_images(at("train-images-idx3-ubyte"));
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[0].number, 2);
  EXPECT_EQ(images[1].where, at("train-images-idx3-ubyte").native() + ":1");
  EXPECT_EQ(images[1].pixels.sizes(), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(image_classes(images, "x"), (std::vector<std::string>{"0", "1", "2"}));
  const at::Tensor one = read_picture(images[1].where, 3);
  EXPECT_TRUE(at::equal(one, at::tensor({99, 100}).to(at::kByte).view({1, 1, 2}).expand({3, 1, 2})));
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { read_picture(at("train-images-idx3-ubyte").native() + ":3", 1); }),
             "the file has 3 pictures, counted from 0");

  picture("folder/cat/a.png", 1), picture("folder/dog/a.png", 1);
  auto mixed = read_labelled_images(at("folder"));
  mixed.push_back(images[0]);
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { image_classes(mixed, "x"); }), "wanted one of the two");
}

TEST_F(ImageFiles, WrongIdxFilesAreNamed) {
  put("a-images", idx_bytes({3, 1, 2}, "abcdef")), put("a-labels", idx_bytes({2}, "ab"));
  EXPECT_HAS(error("a-images"), "a-labels: has shape [2], wanted a class for each of the 3 pictures of ");
  put("b-images", idx_bytes({6}, "abcdef")), put("b-labels", idx_bytes({6}, "abcdef"));
  EXPECT_HAS(error("b-images"), "b-images: an IDX file of shape [6], wanted pictures [N, Y, X]");
  put("c-images", idx_bytes({0, 1, 2}, "")), put("c-labels", idx_bytes({0}, ""));
  EXPECT_HAS(error("c-images"), "c-images: holds no pictures");
  put("d-images", idx_bytes({3, 1, 2}, "abcdef"));
  EXPECT_HAS(error("d-images"), "d-labels");
  put("pictures", idx_bytes({3, 1, 2}, "abcdef"));
  EXPECT_HAS(error("pictures"), "needs \"images\" in its name");
  put("e-images", "\x1f\x8b gzip");
  put("e-labels", idx_bytes({0}, ""));
  EXPECT_HAS(error("e-images"), "compressed by gzip");
}

LabelledImages numbered_images(const ImageBatchOptions& options, int64_t count = 10) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(i % 3);
  const at::Tensor pixels = at::arange(count).view({count, 1, 1, 1}).expand({count, 1, 4, 4}).to(at::kByte) + 1;
  return {pixels, labels, ImageProcessor({.rescale = false, .normalize = false}), options};
}

// The pictures of an epoch by their number; their labels must be theirs.
std::vector<int64_t> numbers_of(LabelledImages& data, int64_t epoch) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < data.batch_count(epoch); ++i) {
    const Batch batch = data.batch(epoch, i);
    EXPECT_EQ(batch.tokens, batch.labels.size(0));
    for (int64_t b = 0; b < batch.tokens; ++b) {
      out.push_back(batch.images[b].max().item<int64_t>() - 1);
      EXPECT_EQ(batch.labels[b].item<int64_t>(), out.back() % 3);
    }
  }
  return out;
}

TEST(LabelledImages, EveryImageOnceAnEpochInAnotherOrder) {
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  LabelledImages plain = numbered_images({.batch_size = 4}), mixed = numbered_images({4, true, 3, {}});
  EXPECT_EQ(plain.batch_count(0), 3);
  EXPECT_EQ(plain.batch(0, 2).images.sizes(), (std::vector<int64_t>{2, 1, 4, 4}));
  EXPECT_EQ(plain.token_count(), 10);
  EXPECT_EQ(numbers_of(plain, 5), all);
  auto first = numbers_of(mixed, 0), second = numbers_of(mixed, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(numbers_of(mixed, 0), first);
  for (auto* order : {&first, &second}) {
    std::sort(order->begin(), order->end());
    EXPECT_EQ(*order, all);
  }
}

TEST(LabelledImages, AugmentationIsAFunctionOfSeedEpochAndImage) {
  const auto data = [](uint64_t seed, int64_t batch_size = 4) {
    return numbered_images({batch_size, false, seed, {.flip = 0.5, .shift = 2, .erase = 0.5}});
  };
  LabelledImages one = data(1), again = data(1), other = data(2), larger = data(1, 10);
  const auto images = [](LabelledImages& of, int64_t epoch) {
    std::vector<at::Tensor> out;
    for (int64_t i = 0; i < of.batch_count(epoch); ++i) out.push_back(of.batch(epoch, i).images);
    return at::cat(out);
  };
  const at::Tensor later = images(one, 3), first = images(one, 0);
  EXPECT_TRUE(at::equal(images(again, 0), first));
  EXPECT_TRUE(at::equal(images(larger, 0), first));  // no matter who else is in the batch
  EXPECT_TRUE(at::equal(images(again, 3), later));
  EXPECT_FALSE(at::equal(first, later));
  EXPECT_FALSE(at::equal(images(other, 0), first));
}

TEST(LabelledImages, TheFingerprintTellsDataApart) {
  const uint64_t is = numbered_images({}).fingerprint();
  EXPECT_EQ(numbered_images({}).fingerprint(), is);
  EXPECT_NE(numbered_images({}, 11).fingerprint(), is);
  EXPECT_NE(numbered_images({.batch_size = 3}).fingerprint(), is);
  EXPECT_NE(numbered_images({.seed = 1}).fingerprint(), is);
  EXPECT_NE(numbered_images({.augmentation = {.erase = 0.1}}).fingerprint(), is);
  at::Tensor pixels = at::zeros({2, 1, 2, 2}, at::kByte);
  const auto of = [&] { return LabelledImages(pixels.clone(), {0, 1}, ImageProcessor(), {}).fingerprint(); };
  const uint64_t dark = of();
  pixels[1][0][1][0] = 1;
  EXPECT_NE(of(), dark);
}

TEST(LabelledImages, WrongPartsAreNamed) {
  const at::Tensor pixels = at::zeros({2, 1, 2, 2}, at::kByte);
  const auto says = [&](ErrorKind kind, auto make, const char* part) { EXPECT_HAS(error_of(kind, make), part); };
  says(
      ErrorKind::kArgument, [&] { LabelledImages(pixels, {0}, ImageProcessor(), {}); }, "wanted Byte [1, channels");
  says(
      ErrorKind::kInput, [&] { LabelledImages(pixels, {}, ImageProcessor(), {}, "x"); }, "x: holds no images");
  says(
      ErrorKind::kConfig,
      [&] {
        LabelledImages(pixels, {0, 1}, ImageProcessor(), {.batch_size = 0});
      },
      "batch_size");
  LabelledImages data(pixels, {0, 1}, ImageProcessor(), {});
  says(
      ErrorKind::kArgument, [&] { data.batch(0, 1); }, "batch 1 of 1");
}

}  // namespace
}  // namespace fovea
