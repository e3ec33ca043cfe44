// Which blocks BigBird draws at random (Zaheer et al. 2020, section 2), as Hugging Face's transformers draws them, so
// that a model goes on learning with the blocks it began with: by NumPy's legacy generator (MT19937, its permutation),
// seeded with the number of the layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea {

struct RandomBlocksOptions {
  int64_t layer = 0;      // the seed
  int64_t heads = 1;      // H; each draws its own
  int64_t size = 64;      // tokens of a block
  int64_t each = 3;       // R, blocks drawn for a block of queries
  int64_t positions = 0;  // longest text of the model
};

// A text of `blocks` blocks -> int64 [H, blocks, R]; rows 0 and blocks − 1, which see everything, hold zeros. Two
// rules: texts of 1024, 3072 and 4096 tokens draw among the first 1024 tokens (the paper's models were trained so),
// others among the first 2R + 5 blocks. Error(kConfig) where too few blocks are left to draw from.
at::Tensor random_blocks(const RandomBlocksOptions& options, int64_t blocks);

}  // namespace fovea
