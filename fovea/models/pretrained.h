// Model folders in Hugging Face layout: config.json and model.safetensors (or shards with their index).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fovea/io/safetensors_folder.h"
#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

// What a folder's weights lack, hold beyond need, or hold in another shape; "" everywhere when they fit.
struct LoadReport {
  std::vector<std::string> missing;     // stored names the model needs
  std::vector<std::string> unexpected;  // stored names the model does not know
  std::vector<std::string> misshaped;   // "name: file [3, 4], model [4, 4]"; integers where numbers were wanted
  bool good() const { return missing.empty() && unexpected.empty() && misshaped.empty(); }
  std::string text() const;
};

// Copies the weights of `file` into the model where they fit. A missing or an extra outer prefix, the old norm names
// gamma/beta and tied tensors stored once or twice are handled; tied copies that differ are an Error(kInput).
LoadReport load_weights(ModelImpl& model, const SafetensorsFolder& file);

// Error(kInput) for what is no model's folder: nothing, a file, the folder of a training run.
void check_model_folder(const std::filesystem::path& folder);

// The model of a folder, ready to run (evaluation mode). Strict: anything missing, unexpected or misshaped is an
// Error(kInput) that lists it.
Model load_pretrained_model(const std::filesystem::path& folder);
// The same for a model that writes; Error(kInput) for one that does not.
GenerativeModel load_generative_model(const std::filesystem::path& folder);

// Error(kInput), beginning with `where`, for a tokenizer with ids that the model has no row for: they are no pair.
void check_tokenizer_fits(const ModelImpl& model, const Tokenizer& tokenizer, const std::string& where);

// What model.safetensors holds: `of` each parameter (the parameter itself; its gradient …) under its stored name, in
// the stored layout.
NamedTensors stored_tensors(const ModelImpl& model, const std::function<Tensor(const Tensor& parameter)>& of);

// Writes config.json and the weights into `folder` (made if missing), each file whole or not at all.
void save_pretrained(const ModelImpl& model, const std::filesystem::path& folder, uint64_t max_shard_bytes = 0);

}  // namespace fovea
