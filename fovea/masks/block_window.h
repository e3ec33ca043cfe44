// Blocks and lists (BigBird; Zaheer et al. 2020, section 2): a block of queries sees its neighbours, the first and the
// last block of its text, and the blocks listed for it. In place of masks::blocks where a table of all pairs of blocks,
// which grows with the square of the length, would be too large or where rows are padded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea {

// Which blocks see each other; equations: block_layout.h. Integers.
struct ListedBlocks {
  int64_t size = 1;    // tokens of a block; a text's last block may have fewer
  int64_t least = 1;   // in a text of fewer blocks every token sees every token
  at::Tensor listed;   // [B or 1, H or 1, N, R]: R blocks listed for each of N blocks (of 0 and n − 1: not read)
  at::Tensor start;    // [B] slots before each text; undefined: none
  at::Tensor lengths;  // [B] tokens of each text; undefined: all that follow
};

namespace masks {

// Tokens before and behind a text neither see nor are seen. Queries are the last T tokens.
Mask block_window(const ListedBlocks& blocks);

}  // namespace masks
}  // namespace fovea
