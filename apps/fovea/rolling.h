// Text beyond a model's positions: what stands in its window is cut to the newest half, and it goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/generate/generate.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

// Goes on with a row of generate() that ended because the model had no position left, until it ends for another reason.
// `row` grows; `seed` is the row's own. Returns the seconds it took. A stop string is found unless a cut falls into it.
double go_on_beyond_positions(const GenerativeModelImpl& model, const std::vector<int64_t>& prompt, Generated& row,
                              GenerateOptions options, const Tokenizer& tokenizer, const TokenCallback& on_token);

// A text without the replacement characters at its end: what a half character looks like when it is cut.
std::string_view without_half_character(std::string_view text);

}  // namespace fovea
