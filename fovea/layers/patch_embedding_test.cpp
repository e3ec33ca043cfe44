// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/patch_embedding.h"

#include "tests/gradient_check.h"

namespace fovea {
namespace {

PatchEmbedding oblong(bool any_image_size = false) {
  at::manual_seed(3);
  return PatchEmbedding(
      {.width = 5, .channels = 2, .image = {7, 9}, .patch = {2, 3}, .any_image_size = any_image_size});
}

TEST(PatchEmbedding, ProjectsEachPatchRowByRow) {
  auto embedding = oblong();
  const torch::NoGradGuard no_grad;
  embedding->bias.copy_(at::arange(5));
  const auto images = at::randn({2, 2, 7, 9});
  const auto x = embedding->forward(images);  // 3 x 3 patches; the seventh row fills none
  ASSERT_EQ(x.sizes(), (std::vector<int64_t>{2, 10, 5}));
  EXPECT_TRUE(
      at::allclose(x.select(1, 0), (embedding->class_token + embedding->positions.slice(1, 0, 1)).select(1, 0)));
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 3; ++column) {
      const auto patch = images.slice(2, 2 * row, 2 * row + 2).slice(3, 3 * column, 3 * column + 3);  // [2, 2, 2, 3]
      const auto wanted = at::einsum("bcyx,ocyx->bo", {patch, embedding->weight}) + embedding->bias +
                          embedding->positions[0][1 + 3 * row + column];
      EXPECT_TRUE(at::allclose(x.select(1, 1 + 3 * row + column), wanted, 1e-5, 1e-6)) << row << ' ' << column;
    }
  const auto convolved = at::conv2d(images, embedding->weight, embedding->bias, {2, 3}).flatten(2).transpose(1, 2);
  EXPECT_TRUE(at::allclose(x.slice(1, 1), convolved + embedding->positions.slice(1, 1), 1e-5, 1e-6));
  EXPECT_EQ(embedding->forward(at::empty({0, 2, 7, 9})).sizes(), (std::vector<int64_t>{0, 10, 5}));
}

TEST(PatchEmbedding, Gradients) {
  for (const auto& size : {std::vector<int64_t>{1, 2, 7, 9}, std::vector<int64_t>{2, 2, 4, 12}}) {
    auto embedding = oblong(true);
    const auto leaves = f64_leaves(*embedding, {f64_input(size)});
    expect_gradients([&] { return embedding->forward(leaves[0]).sin(); }, leaves);
  }
}

TEST(PatchEmbedding, ResizedPositionsKeepRowsColumnsAndTheClassToken) {
  // A plane, which this kernel gives back within a tenth of a cell, away from the edges.
  const auto plane = [](int64_t rows, int64_t columns) {
    const auto y = (at::arange(rows, at::kDouble) + 0.5).div(rows).view({rows, 1, 1}).expand({rows, columns, 1});
    const auto x =
        (at::arange(columns, at::kDouble) + 0.5).div(columns).view({1, columns, 1}).expand({rows, columns, 1});
    return at::cat({y, x, y + 10 * x}, 2);  // [rows, columns, 3]
  };
  const auto table =
      at::cat({at::tensor({7.0, 8.0, 9.0}, at::kDouble).view({1, 3}), plane(8, 16).flatten(0, 1)}).unsqueeze(0);
  const auto resized = resize_positions(table, {8, 16}, {16, 8});  // [1, 1 + 16 · 8, 3]
  EXPECT_TRUE(at::equal(resized.slice(1, 0, 1), table.slice(1, 0, 1)));
  const auto inner = [](const at::Tensor& cells) { return cells.slice(0, 4, 12).slice(1, 2, 6); };
  EXPECT_TRUE(at::allclose(inner(resized[0].slice(0, 1).view({16, 8, 3})), inner(plane(16, 8)), 0, 0.01));
  EXPECT_TRUE(resize_positions(table, {8, 16}, {8, 16}).is_same(table));
  EXPECT_EQ(resize_positions(table.to(at::kBFloat16), {8, 16}, {3, 3}).scalar_type(), at::kBFloat16);
}

TEST(PatchEmbedding, AnotherImageSizeIsAnErrorUnlessAskedFor) {
  const auto images = at::randn({1, 2, 12, 8});
  EXPECT_NE(error_of([&] { oblong()->forward(images); }).find("images of 12 x 8, wanted 7 x 9"), std::string::npos);
  auto embedding = oblong(true);
  const auto x = embedding->forward(images);  // 6 x 2 patches
  ASSERT_EQ(x.sizes(), (std::vector<int64_t>{1, 13, 5}));
  const auto places = resize_positions(embedding->positions, {3, 3}, {6, 2});
  const auto patch = images.slice(2, 10, 12).slice(3, 3, 6);  // the last one
  const auto wanted = at::einsum("bcyx,ocyx->bo", {patch, embedding->weight}) + embedding->bias + places.select(1, 12);
  EXPECT_TRUE(at::allclose(x.select(1, 12), wanted, 1e-5, 1e-6));
}

TEST(PatchEmbedding, WrongImagesAndSizesAreNamed) {
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto of = [](const at::Tensor& images) { return error_of([&] { oblong(true)->forward(images); }); };
  says(of(at::zeros({1, 3, 7, 9})), "with 2 channels");
  says(of(at::zeros({2, 7, 9})), "wanted [B, channels, Y, X]");
  says(of(at::zeros({1, 2, 7, 9}, at::kByte)), "wanted floating-point numbers");
  says(of(at::zeros({1, 2, 1, 9})), "smaller than a patch of 2 x 3");
  says(of({}), "images are []");
  const auto make = [](PatchEmbeddingOptions options) { return error_of([&] { PatchEmbedding{options}; }); };
  says(make({.width = 0}), "width is 0");
  says(make({.width = 4, .channels = 0}), "channels is 0");
  says(make({.width = 4, .image = {8, 8}, .patch = {4, 9}}), "patches of 4 x 9 do not fit an image of 8 x 8");
  says(make({.width = 4, .image = {8, 8}, .patch = {0, 4}}), "patches of 0 x 4");
  says(make({.width = 1 << 20, .image = {1 << 30, 1 << 30}, .patch = {1, 1}}), "GB");
  says(error_of([] { resize_positions(at::zeros({1, 5, 3}), {2, 3}, {1, 1}); }), "wanted [1, 1 + 2");
  says(error_of([] { resize_positions(at::zeros({1, 5, 3}), {2, 2}, {0, 1}); }), "a grid of 0 x 1");
}

}  // namespace
}  // namespace fovea
