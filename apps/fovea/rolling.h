// Text beyond a model's positions: what stands in its window is cut to the newest half, and it goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "fovea/generate/generate.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

// Text of a row as soon as it is final: whole characters; the pieces join to the row's text. false ends that row.
using TextCallback = std::function<bool(int64_t row, std::string_view text)>;

// generate(), except that a row of a decoder that runs out of positions goes on from the newest half of its tokens
// until it ends for another reason. A stop string is found unless a cut falls into it. Needs options.seed ≥ 0 and no
// beams.
GenerateResult generate_rolling(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                                const GenerateOptions& options, const Tokenizer& tokenizer,
                                const TextCallback& on_text);

}  // namespace fovea
