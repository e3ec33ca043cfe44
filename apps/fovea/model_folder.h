// A model folder opened for use: weights, tokenizer, and whether the two fit each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fovea/command_line.h"
#include "apps/fovea/text_input.h"
#include "fovea/data/pairs.h"
#include "fovea/generate/options.h"
#include "fovea/models/image_encoder.h"
#include "fovea/models/model.h"
#include "fovea/models/text_encoder.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct ModelFolder {
  std::filesystem::path path;
  Model model;  // in evaluation mode
  Tokenizer tokenizer;
  GenerateOptions options;  // how it wants to write, as its files say
  double seconds = 0;       // that loading took
};

// Error(kInput) that names the folder, for anything missing or bad in it, and for a tokenizer with more ids than the
// model's vocabulary.
ModelFolder open_model_folder(const std::filesystem::path& path);

// The model as one that writes; Error(kInput) for one that does not.
GenerativeModel writing_model(const ModelFolder& folder);

// A folder opened for reading texts; Error(kInput) that names the folder for anything missing or bad in it.
TextEncoder open_text_encoder(const std::filesystem::path& path);
// The same for a model that sees.
ImageEncoder open_image_encoder(const std::filesystem::path& path);
// Error(kInput) that names the text's source where it is blank.
void check_text_is_there(std::string_view text, const std::string& source);
// And where it has no tokens, or more than the model has positions.
void check_text(const TextEncoder& encoder, std::string_view text, const std::string& source);

// "first<TAB>second". Error(kInput) for anything else.
TextPair text_pair(const TextLine& line);
// Error(kInput) for a model that tells no first text from a second.
void check_reads_pairs(const EncoderModelImpl& model, const Tokenizer& tokenizer, const std::string& folder);

// The tokens that a model reads for this text: with what the tokenizer puts around it, and for an encoder-decoder
// closed by the end token. `source` names the text in errors: UTF-8, at least one token, at most the model's positions.
std::vector<int64_t> prompt_ids(const ModelFolder& folder, std::string_view text, const std::string& source);

// The folder's options under those that stood on the command line. Typed drawing turns the folder's beams off, typed
// beams its drawing.
GenerateOptions layered(const GenerateOptions& folder, const GenerateOptions& typed, const CommandLine& line);

}  // namespace fovea
