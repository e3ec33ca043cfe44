// What a file in models/ registers: how to build the model from config.json or from a recipe's [model] table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/base/registry.h"
#include "fovea/models/model.h"

namespace fovea {

// What labelled or masked texts ask of a model that reads them.
struct ReaderNeeds {
  int64_t vocab_size = 0;
  int64_t segments = 1;  // 2 for pairs of texts
  int64_t pad_token_id = 0;
  std::vector<std::string> labels;  // the classes; none: masked words
};

// The [model] table of a training recipe, in our own words.
class ModelRecipe {
 public:
  virtual ~ModelRecipe() = default;
  virtual void visit(FieldVisitor& visitor) = 0;
  // The content of config.json for a vocabulary of this size.
  virtual nlohmann::json config(int64_t vocab_size) const = 0;
  // The same for a classifier of texts or a model of masked words; Error(kConfig) where this model is neither.
  virtual nlohmann::json reader_config(const ReaderNeeds& needs) const;
  // The same for a classifier of images; Error(kConfig) where this model is none.
  virtual nlohmann::json image_config(const std::vector<std::string>& labels) const;
};

struct ModelEntry {
  // config.json's content (any values Hugging Face writes); a field that changes the result and is not supported
  // throws.
  std::function<Model(const nlohmann::json& config)> from_config;
  // Hugging Face's `architectures` entries that this file reads.
  std::vector<std::string> architectures;
  std::function<std::unique_ptr<ModelRecipe>()> recipe;
};

struct ModelsRegistry : Registry<ModelEntry> {
  ModelsRegistry() : Registry("model") {}
};

const ModelsRegistry& models_registry();

// Builds the model that config.json names by `model_type` (or `architectures`), with fresh initial weights.
Model make_model(const nlohmann::json& config);

}  // namespace fovea
