// The attention layers that long texts are measured with: 768 channels, 12 heads, as the papers' base models have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "fovea/attention/attention.h"
#include "fovea/masks/block_window.h"
#include "fovea/masks/window_global.h"
#include "fovea/models/random_blocks.h"
#include "fovea/scores/block_repeats.h"

namespace fovea::bench {

struct LongLayer {
  Attention attention;
  AttendInput in;

  // Projections, attention, output and all of it backward, gradients starting from nothing; the output.
  Tensor run(const Tensor& x) const {
    for (const Tensor& parameter : attention->parameters()) parameter.mutable_grad() = Tensor();
    x.mutable_grad() = Tensor();
    Tensor y = attention->forward(x, in);
    y.mul(x.detach()).sum().backward();
    return y.detach();
  }
};

// Window 512, the first token global.
inline LongLayer longformer_layer(int64_t tokens) {
  LongLayer out{Attention({.width = 768, .heads = 12, .variant = "longformer"}), {}};
  out.in.global = at::zeros({1, tokens}, at::kBool);
  out.in.global.select(1, 0).fill_(true);
  out.in.local_mask = masks::window_global(256, out.in.global, /*global_rows=*/false);
  return out;
}

// Blocks of 64, three of them drawn at random for each head as in the first layer of a model in training.
inline LongLayer bigbird_layer(int64_t tokens) {
  LongLayer out{Attention({.width = 768, .heads = 12}), {}};
  const ListedBlocks blocks{
      .size = 64,
      .least = 12,
      .listed = random_blocks({.heads = 12, .positions = tokens}, (tokens + 63) / 64).unsqueeze(0)};
  out.in.local_mask = masks::block_window(blocks);
  out.in.score = scores::block_repeats(blocks);
  return out;
}

inline LongLayer long_layer(const std::string& name, int64_t tokens) {
  return name.starts_with("longformer") ? longformer_layer(tokens) : bigbird_layer(tokens);
}

}  // namespace fovea::bench
