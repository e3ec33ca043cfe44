// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/padding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "fovea/base/check.h"

namespace fovea {

at::Tensor pad_right(const std::vector<std::vector<TokenId>>& rows, int64_t fill, int64_t length) {
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, int64_t(row.size()));
  if (length == 0) length = longest;
  FOVEA_CHECK(longest <= length, "a row has ", longest, " tokens, more than the length asked for, ", length);
  at::Tensor out = at::full({int64_t(rows.size()), length}, fill, at::kLong);  // [B, T]
  auto out_at = out.accessor<int64_t, 2>();
  for (int64_t b = 0; b < out.size(0); ++b)
    for (int64_t t = 0; t < int64_t(rows[size_t(b)].size()); ++t) out_at[b][t] = rows[size_t(b)][size_t(t)];
  return out;
}

at::Tensor row_lengths(const std::vector<std::vector<TokenId>>& rows) {
  at::Tensor out = at::empty({int64_t(rows.size())}, at::kLong);  // [B]
  auto out_at = out.accessor<int64_t, 1>();
  for (int64_t b = 0; b < out.size(0); ++b) out_at[b] = int64_t(rows[size_t(b)].size());
  return out;
}

}  // namespace fovea
