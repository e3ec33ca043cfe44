// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/text_batches.h"

#include "fovea/base/check.h"
#include "fovea/data/buckets.h"
#include "fovea/data/padding.h"

namespace fovea {
namespace {

void check_rows(const TextEncoder& encoder, const std::vector<Encoding>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t length = int64_t(rows[i].ids.size()), longest = encoder.model->max_positions();
    FOVEA_CHECK_INPUT(length > 0, "text ", i + 1, " is empty; wanted at least one token");
    FOVEA_CHECK_INPUT(length <= longest, "text ", i + 1, " has ", length, " tokens, the model has ", longest,
                      " positions");
  }
}

Batch batch_of(const TextEncoder& encoder, const std::vector<Encoding>& rows, const std::vector<int64_t>& chosen) {
  std::vector<std::vector<TokenId>> ids, types;
  for (const int64_t i : chosen) {
    const Encoding& row = rows[size_t(i)];
    ids.emplace_back(row.ids.begin(), row.ids.end());
    types.emplace_back(row.type_ids.begin(), row.type_ids.end());
  }
  return {.ids = pad_right(ids, encoder.tokenizer.pad_id().value_or(0)),
          .lengths = row_lengths(ids),
          .type_ids = pad_right(types, 0)};
}

}  // namespace

void run_by_length(const TextEncoder& encoder, const std::vector<Encoding>& rows,
                   const std::function<void(const TextBatch&)>& use) {
  FOVEA_CHECK_CONFIG(encoder.batch_tokens > 0, "batch_tokens is ", encoder.batch_tokens, ", wanted at least 1");
  check_rows(encoder, rows);
  const at::NoGradGuard no_gradient;
  std::vector<int64_t> lengths;
  for (const Encoding& row : rows) lengths.push_back(int64_t(row.ids.size()));
  for (const auto& chosen : bucket_batches(lengths, {.batch_tokens = encoder.batch_tokens, .shuffle = false}, 0))
    use({batch_of(encoder, rows, chosen), chosen});
}

}  // namespace fovea
