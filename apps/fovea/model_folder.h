// A model folder opened for use: weights, tokenizer, and whether the two fit each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/models/text_encoder.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct ModelFolder {
  std::filesystem::path path;
  Model model;  // in evaluation mode
  Tokenizer tokenizer;
  std::vector<int64_t> end_ids;     // that end a text: as generation_config.json, config.json or the tokenizer say
  std::optional<int64_t> start_id;  // first token of an encoder-decoder's target
  double seconds = 0;               // that loading took
};

// Error(kInput) that names the folder, for anything missing or bad in it, and for a tokenizer with more ids than the
// model's vocabulary.
ModelFolder open_model_folder(const std::filesystem::path& path);

// The model as one that writes; Error(kInput) for one that does not.
GenerativeModel writing_model(const ModelFolder& folder);

// A folder opened for reading texts; Error(kInput) that names the folder for anything missing or bad in it.
TextEncoder open_text_encoder(const std::filesystem::path& path);
// Error(kInput) that names the text's source where it has no tokens, or more than the model has positions.
void check_text(const TextEncoder& encoder, std::string_view text, const std::string& source);

// The tokens that a model reads for this text: with what the tokenizer puts around it, and for an encoder-decoder
// closed by the end token. `source` names the text in errors: UTF-8, at least one token, at most the model's positions.
std::vector<int64_t> prompt_ids(const ModelFolder& folder, std::string_view text, const std::string& source);

}  // namespace fovea
