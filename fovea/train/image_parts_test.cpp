// A model that sees, from pictures to a trained folder: classes, IDX files, a new head, exact resume, bad input.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/labelled_images.h"
#include "fovea/io/files.h"
#include "fovea/io/images.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/image_encoder.h"
#include "fovea/train/parts.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

class ImageParts : public toy::Recipe {
 protected:
  ImageParts()
      : Recipe(
            "[data]\nkind=\"images\"\n"
            "[model]\ntype=\"vit\"\nimage_size=[8]\npatch_size=[4]\nchannels=1\nwidth=16\nlayers=1\nheads=2\n"
            "[optim]\nlearning_rate=0.01\nbatch_size=8\n[train]\nsteps=60\nvalidate_every=30\n") {}
  // Bright above ("sky") or below ("snow"), with noise; uint8 [1, size, size].
  static at::Tensor picture(int64_t number, bool below, uint64_t seed, int64_t size = 8) {
    at::Tensor out = at::empty({1, size, size}, at::kByte);
    for (int64_t y = 0; y < size; ++y)
      for (int64_t x = 0; x < size; ++x) {
        const int64_t noise = random_below(120, seed + uint64_t(number), uint64_t(y), uint64_t(x));
        out[0][y][x] = noise + ((y >= size / 2) == below ? 100 : 0);
      }
    return out;
  }
  std::string pictures(const std::string& name, int64_t count, uint64_t seed = 1) {
    for (int64_t i = 0; i < count; ++i) {
      const auto path = folder_ / name / (i % 2 ? "snow" : "sky") / (std::to_string(i) + ".png");
      std::filesystem::create_directories(path.parent_path());
      write_png(path, picture(i, i % 2, seed));
    }
    return (folder_ / name).native();
  }
  static std::string idx_bytes(const std::vector<int64_t>& shape, const std::string& data) {
    std::string out{0, 0, 8, char(shape.size())};
    for (const int64_t size : shape)
      for (int shift = 24; shift >= 0; shift -= 8) out += char(size >> shift);
    return out + data;
  }
};

TEST_F(ImageParts, AClassifierLearnsAndIsMeasured) {
  const auto o = options({"data.train=" + pictures("train", 64), "data.validation=" + pictures("test", 20, 500),
                          "data.flip=0.5", "data.shift=1"});
  Trainer(load_train_parts(o), o).run();
  const ImageEncoder encoder = ImageEncoder::load(best_);
  EXPECT_TRUE(ImageEncoder::fits(best_));
  EXPECT_EQ(encoder.model->labels(), (std::vector<std::string>{"sky", "snow"}));
  EXPECT_EQ(encoder.prepare.options().height, 8);

  const auto data = load_measured_images(*encoder.model, encoder.prepare,
                                         {.kind = "images", .files = {(folder_ / "test").native()}, .batch_size = 7});
  const auto found = predict(*encoder.model, *data);
  EXPECT_EQ(found->truth.size(), 20u);
  EXPECT_GT(found->accuracy(), 0.9);
  // As the encoder classifies them one by one.
  std::vector<at::Tensor> images;
  for (const auto& image : read_labelled_images(folder_ / "test")) images.push_back(pixels_of(image, 1));
  const auto classified = encoder.classify(images);
  for (size_t i = 0; i < images.size(); ++i)
    EXPECT_EQ(classified[i].label, encoder.model->labels()[size_t(found->predicted[i])]) << i;
}

TEST_F(ImageParts, AResumedRunEqualsOneThatNeverStopped) {
  expect_exact_resume({"data.train=" + pictures("train", 40), "data.validation_fraction=0.2", "data.flip=0.5",
                       "data.shift=2", "data.erase=0.3", "model.dropout=0.1", "train.steps=30"},
                      17);
  EXPECT_TRUE(path_exists(folder_ / "parts" / "last" / "preprocessor_config.json"));
}

TEST_F(ImageParts, IdxFilesAndNamesFromTheRecipe) {
  std::string pixels, numbers;
  for (int64_t i = 0; i < 30; ++i) {
    const at::Tensor image = picture(i, i % 2, 1).view({-1});
    for (int64_t j = 0; j < 64; ++j) pixels += char(image[j].item<uint8_t>());
    numbers += char(i % 2);
  }
  const std::string file = (folder_ / "a-images-idx3-ubyte").native();
  write_file(file, idx_bytes({30, 8, 8}, pixels));
  write_file(folder_ / "a-labels-idx1-ubyte", idx_bytes({30}, numbers));
  const auto labels = [](const TrainParts& parts) {
    return std::dynamic_pointer_cast<EncoderModelImpl>(parts.model)->labels();
  };
  const auto parts = load_train_parts(options({"data.train=" + file, "data.validation_fraction=0.1"}));
  EXPECT_EQ(labels(parts), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(parts.train->token_count(), 27);
  EXPECT_EQ(parts.validation->batch(0, 0).labels.size(0), 3);
  EXPECT_EQ(labels(load_train_parts(options({"data.train=" + file, "model.labels=[\"sky\",\"snow\",\"sea\"]"}))),
            (std::vector<std::string>{"sky", "snow", "sea"}));
  expect_error({"data.train=" + file, "model.labels=[\"sky\"]"}, ErrorKind::kInput,
               "a-images-idx3-ubyte:1: is of class 1, the model knows 1 classes");
  expect_error({"data.train=" + file, "model.image_size=[12]"}, ErrorKind::kInput,
               "a-images-idx3-ubyte:0: the image has 8 x 8 pixels, the model takes 12 x 12; in training, data.resize");
  const auto resized = load_train_parts(
      options({"data.train=" + file, "model.image_size=[12]", "model.channels=3", "data.resize=true"}));
  EXPECT_EQ(resized.train->batch(0, 0).images.sizes(), (std::vector<int64_t>{8, 3, 12, 12}));
}

TEST_F(ImageParts, FoldersNamedByNumbersMeanTheNumbersOfIdxFiles) {
  for (const char* name : {"2/a.png", "10/a.png", "0/a.png"}) {
    std::filesystem::create_directories((folder_ / "numbers" / name).parent_path());
    write_png(folder_ / "numbers" / name, picture(1, true, 1));
  }
  const auto o = options({"data.train=" + (folder_ / "numbers").native()});
  const TrainParts parts = load_train_parts(o);
  EXPECT_EQ(std::dynamic_pointer_cast<EncoderModelImpl>(parts.model)->labels(),
            (std::vector<std::string>{"0", "2", "10"}));
  const auto classes = [&](const std::string& numbers) {
    const std::string file = (folder_ / "n-images-idx3-ubyte").native();
    write_file(file, idx_bytes({int64_t(numbers.size()), 8, 8}, std::string(numbers.size() * 64, '\0')));
    write_file(folder_ / "n-labels-idx1-ubyte", idx_bytes({int64_t(numbers.size())}, numbers));
    return load_measured_images(*parts.model, *parts.prepare, {.kind = "images", .files = {file}})->batch(0, 0).labels;
  };
  EXPECT_TRUE(at::equal(classes("\x0a\x02"), at::tensor({2, 1}, at::kLong)));
  EXPECT_THROW(classes("\x01"), Error);  // the second folder, but not its number
}

TEST_F(ImageParts, AFoldersEncoderGetsANewHead) {
  const std::string train = "data.train=" + pictures("train", 40);
  const auto first = options({train});
  Trainer(load_train_parts(first), first).run();
  const std::string init = "train.init=" + (best_).string();
  const auto before = ImageEncoder::load(best_).model->named_parameters();
  const auto kept = load_train_parts(options({train, init, "train.out=x"})).model->named_parameters();
  EXPECT_TRUE(at::equal(kept["classifier.output.weight"], before["classifier.output.weight"]));
  for (const char* name : {"other/sky/1.png", "other/sea/1.png", "other/sun/1.png"}) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_png(folder_ / name, picture(1, true, 1));
  }
  const auto parts = load_train_parts(options({"data.train=" + (folder_ / "other").native(), init, "train.out=x"}));
  const auto after = parts.model->named_parameters();
  EXPECT_EQ(after["classifier.output.weight"].size(0), 3);
  EXPECT_TRUE(at::equal(after["embedding.positions"], before["embedding.positions"]));
}

TEST_F(ImageParts, BadInput) {
  const std::string train = pictures("train", 12), data = "data.train=" + train;
  expect_error({"data.train=" + (folder_ / "nowhere-images").native()}, ErrorKind::kInput, "nowhere-images");
  expect_error({"data.train=" + train + "/sky"}, ErrorKind::kInput, "sky/0.png: stands in no class's folder");
  expect_error({data, "data.validation_fraction=0.01"}, ErrorKind::kInput, "1 % of 12 images leave one side empty");
  TrainOptions reader = options({data});
  reader.model = {"gpt2", models_registry().at("gpt2").recipe()};
  toy::expect_error([&] { load_train_parts(reader); }, ErrorKind::kConfig, "vit does");
  expect_error({data, "data.kind=text"}, ErrorKind::kInput, "train");
  toy::expect_error([&] { options({data, "data.flip=2"}); }, ErrorKind::kConfig, "data.flip is 2");
  write_file(folder_ / "a.txt", "some text\n");
  expect_error({"data.train=" + (folder_ / "a.txt").native(), "data.kind=text"}, ErrorKind::kConfig, "reads no text");
  pictures("other", 4);
  std::filesystem::rename(folder_ / "other" / "snow", folder_ / "other" / "snwo");
  expect_error({data, "data.validation=" + (folder_ / "other").native()}, ErrorKind::kInput,
               "1.png: the model knows no class \"snwo\"; did you mean \"snow\"?");
  write_png(folder_ / "train" / "sky" / "z.png", at::zeros({3, 9, 8}, at::kByte));
  expect_error({data}, ErrorKind::kInput, "sky/z.png: the image has 9 x 8 pixels, the model takes 8 x 8");
  EXPECT_EQ(load_train_parts(options({data, "data.resize=true"})).train->token_count(), 13);
  write_file(folder_ / "train" / "sky" / "z.png", "GIF89a");
  expect_error({data}, ErrorKind::kInput, "sky/z.png: wanted a PNG or JPEG image; it is a GIF");
  write_file(folder_ / "train" / "sky" / "z.png", "");
  expect_error({data}, ErrorKind::kInput, "sky/z.png: wanted a PNG or JPEG image; the file is empty");
}

}  // namespace
}  // namespace fovea
