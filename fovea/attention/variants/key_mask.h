// What a mask comes to where no single pair of query and key can be hidden: a direction, and which keys exist at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/ops/attention.h"

namespace fovea {

struct KeyMask {
  bool causal = false;  // lower right: query i sees keys 0 … S − T + i
  Tensor real;          // bool [B, S], true for keys that exist; undefined: all do
};

// Knows masks::causal(), masks::padding() and what & makes of them. Error(kArgument) that names `variant` for others.
KeyMask key_mask(const char* variant, const Mask& mask, const AttentionShape& shape);

}  // namespace fovea
