// Texts of similar length run together. Internal to models/; use text_encoder.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "fovea/models/text_encoder.h"

namespace fovea {

inline constexpr EncodeOptions kUnpadded{.pad = false};

struct TextBatch {
  Batch batch;
  std::vector<int64_t> rows;  // which they are
};

// Calls use() for each batch; every row is in one of them. Error(kInput) for a row that is empty or too long.
void run_by_length(const TextEncoder& encoder, const std::vector<Encoding>& rows,
                   const std::function<void(const TextBatch&)>& use);

}  // namespace fovea
