// SPDX-License-Identifier: Apache-2.0
#include "fovea/blocks/block.h"

#include "fovea/masks/causal.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

Block make_block(BlockOptions options) {
  at::manual_seed(3);
  Block block(std::move(options));
  block->to(torch::kDouble);
  block->eval();
  return block;
}

TEST(Block, PreAndPostNormAreTheirEquations) {
  const auto x = f64_input({2, 4, 8});
  const Mask mask = masks::causal();
  const auto pre = make_block({.attention = {.width = 8, .heads = 2}});
  auto y = x + pre->attention->forward(pre->attention_norm->forward(x), {.mask = mask});
  y = y + pre->feed_forward->forward(pre->feed_forward_norm->forward(y));
  EXPECT_TRUE(torch::allclose(pre->forward(x, {.mask = mask}), y));

  const auto post = make_block({.attention = {.width = 8, .heads = 2}, .pre_norm = false});
  y = post->attention_norm->forward(x + post->attention->forward(x, {.mask = mask}));
  y = post->feed_forward_norm->forward(y + post->feed_forward->forward(y));
  EXPECT_TRUE(torch::allclose(post->forward(x, {.mask = mask}), y));
}

TEST(Block, CrossAttentionReadsTheMemory) {
  const auto x = f64_input({2, 4, 8}), memory = f64_input({2, 3, 5}, 1);
  const auto block = make_block({.attention = {.width = 8, .heads = 2, .memory_width = 5}, .cross_attention = true});
  auto y = x + block->attention->forward(block->attention_norm->forward(x));
  y = y + block->cross_attention->forward(block->cross_attention_norm->forward(y), {.memory = memory});
  y = y + block->feed_forward->forward(block->feed_forward_norm->forward(y));
  EXPECT_TRUE(torch::allclose(block->forward(x, {.memory = memory}), y));
  EXPECT_NE(error_of([&] { block->forward(x); }).find("wants a memory"), std::string::npos);
}

TEST(Block, Gradients) {
  const std::vector<BlockOptions> all = {
      {.attention = {.width = 8, .heads = 2}, .feed_forward = {.hidden = 6, .activation = "gelu_tanh"}},
      {.attention = {.width = 8, .heads = 2},
       .cross_attention = true,
       .feed_forward = {.hidden = 6, .activation = "gelu"},
       .pre_norm = false},
      {.attention = {.width = 8, .heads = 4, .kv_heads = 2, .bias = false},
       .feed_forward = {.hidden = 6, .activation = "swiglu", .bias = false},
       .norm = "rms"}};
  for (const auto& options : all) {
    auto block = make_block(options);
    const auto x = f64_input({1, 3, 8}), memory = f64_input({1, 2, 8}, 1);
    auto leaves = f64_leaves(*block, {x});
    if (options.cross_attention) leaves.push_back(memory);
    expect_gradients(
        [&] {
          return block->forward(x, {.mask = masks::causal(), .memory = options.cross_attention ? memory : Tensor()});
        },
        leaves, 5e-6, 6);
  }
}

TEST(Block, DropoutWorksInTrainingOnly) {
  const auto x = f64_input({1, 5, 8}).detach();
  auto block = make_block(
      {.attention = {.width = 8, .heads = 2, .dropout = 0.8}, .feed_forward = {.dropout = 0.3}, .dropout = 0.3});
  EXPECT_TRUE(torch::equal(block->forward(x), block->forward(x)));
  block->train();
  EXPECT_FALSE(torch::allclose(block->forward(x), block->forward(x)));
  auto certain = make_block({.attention = {.width = 8, .heads = 2}, .dropout = 1});
  certain->train();
  EXPECT_TRUE(torch::equal(certain->forward(x), x));  // nothing is added
}

TEST(Block, Errors) {
  EXPECT_NE(error_of([] {
              Block({.attention = {.width = 8, .heads = 2}, .feed_forward = {.width = 6}});
            }).find("feed_forward has width 6, attention 8"),
            std::string::npos);
  EXPECT_NE(error_of([] { Block({.attention = {.width = 8, .heads = 2}, .dropout = 2}); }).find("dropout is 2"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
