// One or a few queries against many keys: bound by reading keys and values, so every one is read once, in place, for
// all query heads of its group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/kernels/attention.h"

namespace fovea {

bool decodes(const AttentionTask& task);
bool attention_decode(const AttentionTask& task);

}  // namespace fovea
