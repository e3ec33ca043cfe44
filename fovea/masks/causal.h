// Causal: a query sees no later key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

enum class Align {
  lower_right,  // the last query sees every key: query i sees keys 0 … S − T + i (decoding with a cache)
  top_left,     // the first query sees the first key only: query i sees keys 0 … i
};

// Lower-right by default, unlike PyTorch's `is_causal`; for T = S the two agree.
Mask causal(Align align = Align::lower_right);
// Ragged batches: sequence b has lengths query_lengths[b] ≤ T and key_lengths[b] ≤ S (both [B], counted from slot 0) and is
// aligned lower-right against its own: query i sees keys 0 … key_lengths[b] − query_lengths[b] + i.
Mask causal(const at::Tensor& query_lengths, const at::Tensor& key_lengths);

}  // namespace fovea::masks
