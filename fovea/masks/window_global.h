// Window + global (Longformer; Beltagy et al. 2020, section 3.1): a two-sided window, and global tokens that see all and
// are seen by all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// Keys within `reach` of the query on both sides; is_global: bool [S] or [B, S]. Queries are the last T tokens. Without
// `global_rows` the global tokens' own rows see nothing: for where they are computed by other means.
Mask window_global(int64_t reach, const at::Tensor& is_global, bool global_rows = true);

}  // namespace fovea::masks
