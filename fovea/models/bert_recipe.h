// The [model] table of a recipe for BERT and its relatives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fovea/models/bert.h"
#include "fovea/models/registry.h"

namespace fovea {

class BertRecipe : public ModelRecipe {
 public:
  explicit BertRecipe(std::string type);
  void visit(FieldVisitor& visitor) override;
  nlohmann::json config(int64_t vocab_size) const override;
  nlohmann::json reader_config(const ReaderNeeds& needs) const override;

 protected:
  // config.json of the model that `config` describes.
  virtual nlohmann::json written(const BertConfig& config) const;

  BertConfig config_{.positions = 128, .width = 128, .layers = 4, .heads = 4};

 private:
  double dropout_ = 0.1;
};

}  // namespace fovea
