// Document: a query sees keys of its own document only (several texts packed into one row).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

// ids [S] or [B, S]: the document of each token. The queries are the last T tokens.
Mask document(const at::Tensor& ids);
// Queries and keys have ids of their own: [T] or [B, T], and [S] or [B, S].
Mask document(const at::Tensor& query_ids, const at::Tensor& key_ids);

}  // namespace fovea::masks
