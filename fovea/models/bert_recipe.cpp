// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bert_recipe.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/models/bert_folder.h"

namespace fovea {

BertRecipe::BertRecipe(std::string type) {
  if (bert_projects(type)) config_.projected = 32;
  config_.type = std::move(type);
}

void BertRecipe::visit(FieldVisitor& v) {
  v.field("width", config_.width, "channels");
  v.field("layers", config_.layers, "blocks");
  v.field("heads", config_.heads, "attention heads");
  v.field("hidden", config_.hidden, "width of the feed-forward; 0: 4 times width");
  v.field("positions", config_.positions, "longest sequence");
  if (bert_projects(config_.type)) {
    v.field("projected", config_.projected, "rows that keys and values are projected to");
    v.field("sharing", config_.sharing, "of the projections: none, heads, key_value or layers");
  }
  v.field("activation", config_.activation, "of the feed-forward");
  v.field("dropout", dropout_, "on residuals, embeddings and attention weights");
  v.field("tied", config_.tied, "output projection = embedding");
  v.field("initializer_range", config_.initializer_range, "deviation of initial weights");
}

nlohmann::json BertRecipe::config(int64_t vocab_size) const { return reader_config({.vocab_size = vocab_size}); }

nlohmann::json BertRecipe::reader_config(const ReaderNeeds& needs) const {
  BertConfig c = config_;
  c.vocab_size = needs.vocab_size;
  c.dropout = c.attention_dropout = dropout_;
  c.segments = bert_has_segments(c.type) ? needs.segments : 0;
  c.pad_token_id = needs.pad_token_id;
  if (!needs.labels.empty()) c.head = "classifier", c.labels = needs.labels;
  return written(c);
}

nlohmann::json BertRecipe::written(const BertConfig& config) const { return Bert(config)->config(); }

}  // namespace fovea
