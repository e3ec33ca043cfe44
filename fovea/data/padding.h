// Rows of unequal length as one tensor, padded on the right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea {

// [rows, longest], int64; places after a row's end hold `fill`. `length` 0: the longest row's.
at::Tensor pad_right(const std::vector<std::vector<TokenId>>& rows, int64_t fill, int64_t length = 0);

// [rows], int64.
at::Tensor row_lengths(const std::vector<std::vector<TokenId>>& rows);

}  // namespace fovea
