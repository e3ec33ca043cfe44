// A Vision Transformer from a folder, an image from a file. The folder is made here, with random weights; one of
// Hugging Face's (google/vit-base-patch16-224, say) loads by the same lines.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <filesystem>

#include "show.h"

using namespace fovea;

int main() {
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fovea_example_vit";

  // A folder: configuration and weights, how images are prepared, and an image of stripes.
  save_pretrained(*Vit(VitConfig{.image_size = {32},
                                 .patch_size = {8},
                                 .width = 48,
                                 .layers = 2,
                                 .heads = 4,
                                 .initializer_range = 0.2,
                                 .head = "classifier",
                                 .labels = {"stripes", "spots", "plain"}}),
                  folder);
  ImageProcessor({.height = 32, .width = 32}).save(folder);
  const Tensor stripes = at::arange(90).div(9, "floor").remainder(2).mul(255).to(at::kByte).expand({3, 60, 90});
  write_png(folder / "stripes.png", stripes);

  // What a program does with such a folder.
  const EncoderModel vit = std::dynamic_pointer_cast<EncoderModelImpl>(load_pretrained_model(folder));
  const ImageProcessor prepare = ImageProcessor::load(folder);
  const Tensor image = read_image(folder / "stripes.png");   // uint8 [3, 60, 90]
  const Batch batch{.images = prepare(std::vector{image})};  // f32 [1, 3, 32, 32]
  std::vector<Tensor> seen;
  const auto probe = Probe::on("*attention.weights", [&](std::string_view, const Tensor& w) { seen.push_back(w); });
  const Tensor scores = vit->scores(vit->forward(batch));  // [1, 3]

  for (int64_t i = 0; i < 3; ++i)
    std::printf("%-8s %.3f\n", vit->labels()[size_t(i)].c_str(), scores[0][i].item<double>());
  show("how much the class token looks at each patch, first layer, mean of the heads",
       seen.at(0)[0].mean(0)[0].slice(0, 1).view({4, 4}));
  claim(at::equal(image, stripes), "the pixels of a PNG come back as they were");
  claim(batch.images.sizes() == at::IntArrayRef{1, 3, 32, 32}, "the image has the size that the model wants");
  claim(std::abs(scores.sum().item<double>() - 1) < 1e-6, "the scores of the labels sum to 1");
  claim(seen.size() == 2 && seen[0].size(2) == 1 + 4 * 4, "a class token and 16 patches attend in each of two layers");
  claim(vit->encode(batch).sizes() == at::IntArrayRef{1, 17, 48}, "each of them has a vector: features for other uses");
  std::filesystem::remove_all(folder);
}
