// The encoder-decoder Transformer by its promises; its numbers are held against torch.nn in tests/parity.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/transformer.h"

#include <gtest/gtest.h>

#include "tests/gradient_check.h"

namespace fovea {
namespace {

Transformer wide_transformer(bool pre_norm = false) {
  at::manual_seed(3);
  Transformer model(TransformerConfig{.vocab_size = 13,
                                      .width = 12,
                                      .encoder_layers = 2,
                                      .decoder_layers = 2,
                                      .heads = 3,
                                      .hidden = 20,
                                      .positions = 16,
                                      .pre_norm = pre_norm});
  model->to(torch::kDouble);
  model->eval();
  return model;
}

Tensor ids_from(int64_t rows, int64_t columns, int64_t first) {
  return at::arange(rows * columns).mul(5).add(first).remainder(13).view({rows, columns});
}
bool agree(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

TEST(TransformerModel, CachedStepsEqualTheWholeAlsoReorderedAndCropped) {
  const torch::NoGradGuard no_grad;
  for (const bool pre_norm : {false, true}) {
    const auto model = wide_transformer(pre_norm);
    const auto source = ids_from(3, 6, 1), target = ids_from(3, 7, 2), lengths = at::tensor({6, 2, 4}, at::kLong);
    const auto whole = model->forward({.ids = source, .lengths = lengths, .target_ids = target});
    DecoderState state = model->begin(source, lengths);
    for (int64_t t = 0; t < 5; ++t)
      EXPECT_TRUE(agree(model->step(target.slice(1, t, t + 1), state), whole.slice(1, t, t + 1)));
    const auto rows = at::tensor({1, 1, 0, 2}, at::kLong);  // beams
    state.reorder(rows);
    state.crop(4);
    const auto rest = model->step(target.index_select(0, rows).slice(1, 4), state);
    EXPECT_TRUE(agree(rest, whole.index_select(0, rows).slice(1, 4)));
  }
}

TEST(TransformerModel, APairDoesNotDependOnItsMates) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_transformer();
  const auto source = ids_from(2, 6, 1), target = ids_from(2, 5, 2);
  const auto both = model->forward({.ids = source,
                                    .lengths = at::tensor({6, 3}, at::kLong),
                                    .target_ids = target,
                                    .target_lengths = at::tensor({5, 2}, at::kLong)});
  const auto alone =
      model->forward({.ids = source.slice(0, 1).slice(1, 0, 3), .target_ids = target.slice(0, 1).slice(1, 0, 2)});
  EXPECT_TRUE(agree(both[1].slice(0, 0, 2), alone[0]));
}

TEST(TransformerModel, PositionsAreAnInput) {
  const torch::NoGradGuard no_grad;
  const auto model = wide_transformer();
  const auto source = ids_from(1, 5, 1), target = ids_from(1, 3, 2), order = at::tensor({3, 0, 4, 1, 2}, at::kLong);
  const auto wanted = model->forward({.ids = source, .target_ids = target});
  const auto moved =
      model->forward({.ids = source.index_select(1, order), .positions = order.unsqueeze(0), .target_ids = target});
  EXPECT_TRUE(agree(moved, wanted));  // tokens move together with their positions
}

TEST(TransformerModel, WrongCallsAreNamed) {
  const auto model = wide_transformer();
  const auto says = [&](const Batch& batch, const char* part) {
    const auto message = error_of([&] { model->forward(batch); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto two = at::zeros({1, 2}, at::kLong);
  says({.ids = two}, "the batch has no target_ids");
  says({.ids = two, .documents = two, .target_ids = two}, "packed texts");
  says({.ids = at::zeros({1, 17}, at::kLong), .target_ids = two}, "17 tokens does not fit the 16 positions");
  says({.ids = two, .target_ids = at::zeros({1, 17}, at::kLong)}, "17 tokens does not fit the 16 positions");
  says({.ids = two, .target_ids = at::zeros({2, 2}, at::kLong)}, "with B = 2");
  says({.ids = at::full({1, 2}, -1, at::kLong), .target_ids = two}, "token id -1");
  EXPECT_NE(error_of([&] { model->begin(); }).find("needs a source"), std::string::npos);
  EXPECT_NE(error_of([] {
              Transformer(TransformerConfig{.vocab_size = 5, .width = 10, .heads = 3});
            }).find("width 10 does not divide into 3 heads"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { Transformer(TransformerConfig{.vocab_size = 5, .width = 8, .heads = 0}); }).find("heads is 0"),
      std::string::npos);
  EXPECT_NE(error_of([] {
              Transformer(TransformerConfig{.vocab_size = 5, .source_vocab_size = 6});
            }).find("shared_embeddings needs one vocabulary"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
