// How a model's folder wants it to write: generation_config.json, or in older folders the same fields of config.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "fovea/generate/options.h"
#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

// Lengths, drawing, beams, rules, and the tokens that open, end and fill texts; the tokenizer has the last word on
// those that no file names. Error(kInput) for a field that changes what is written and is not built.
GenerateOptions folder_options(const std::filesystem::path& folder, const ModelImpl& model, const Tokenizer& tokenizer);

// The tokens that an encoder reads for a text: whole, with what the tokenizer puts around it, closed by the end token.
std::vector<int64_t> source_ids(const Tokenizer& tokenizer, const GenerateOptions& options, std::string_view text);

}  // namespace fovea
