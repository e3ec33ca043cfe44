// Padding: sequence b holds real keys in a run of slots only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// Right padding: keys 0 … lengths[b] − 1 are real; lengths [B].
Mask padding(const at::Tensor& lengths);
// Either side: keys start[b] … start[b] + lengths[b] − 1 are real; both [B].
Mask padding(const at::Tensor& start, const at::Tensor& lengths);
// Left padding in front of a growing cache: keys start[b] … S − 1 are real; start [B].
Mask padding_left(const at::Tensor& start);

}  // namespace fovea::masks
