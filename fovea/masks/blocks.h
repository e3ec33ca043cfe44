// Blocks (BigBird; Zaheer et al. 2020, section 2): queries and keys in blocks of equal size, each query block sees the listed
// key blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// visible: bool [⌈T/size⌉, ⌈S/size⌉], or with a leading axis of heads [H, …]: which key block a query block sees.
Mask blocks(int64_t size, const at::Tensor& visible);

}  // namespace fovea::masks
