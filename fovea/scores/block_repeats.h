// What blocks that are listed several times weigh (BigBird; Zaheer et al. 2020, section 2): a key that a query sees m
// times has m times its share of the softmax, which is ln m on its score.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/block_window.h"
#include "fovea/scores/score.h"

namespace fovea::scores {

// Beside masks::block_window(blocks), which hides what is not seen at all. Learns nothing.
Score block_repeats(const ListedBlocks& blocks);

}  // namespace fovea::scores
