// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/transformer_xl.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/io/json.h"
#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

StackOptions segment_stack(const TransformerXlConfig& c) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width, .heads = c.heads, .bias = false, .dropout = c.attention_dropout},
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .eps = c.eps,
                    .pre_norm = c.pre_norm,
                    .dropout = c.dropout},
          .position = "xl_relative",
          .positions = {.reach = c.reach},
          .position_each = true,
          .causal = true,
          .embed_dropout = c.dropout,
          .final_norm = c.pre_norm,
          .final_dropout = c.dropout};
}

class TransformerXlRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override { config_.visit(v); }
  nlohmann::json config(int64_t vocab_size) const override {
    TransformerXlConfig c = config_;
    c.vocab_size = vocab_size;
    return TransformerXl(c)->config();
  }

 private:
  TransformerXlConfig config_;
};

}  // namespace

void TransformerXlConfig::visit(FieldVisitor& v) {
  v.field("width", width, "channels");
  v.field("layers", layers, "blocks");
  v.field("heads", heads, "attention heads");
  v.field("hidden", hidden, "width of the feed-forward; 0: 4 times width");
  v.field("memory", memory, "states of earlier segments that a layer sees, or as many as there are; 0: none");
  v.field("reach", reach, "distances from here on share a vector; 0: each has its own");
  v.field("activation", activation, "of the feed-forward");
  v.field("pre_norm", pre_norm, "norm before each part instead of after the sum");
  v.field("eps", eps, "of the norms");
  v.field("dropout", dropout, "on embeddings, what each part adds, and the output");
  v.field("attention_dropout", attention_dropout, "on attention weights");
  v.field("tied", tied, "output projection = embedding");
  v.field("initializer_range", initializer_range, "deviation of initial weights");
}

TransformerXlImpl::TransformerXlImpl(TransformerXlConfig config) : config_(std::move(config)) {
  const TransformerXlConfig& c = config_;
  FOVEA_CHECK_CONFIG(c.memory >= 0, "transformer_xl: memory is ", c.memory, ", wanted at least 0 states");
  FOVEA_CHECK_CONFIG(c.initializer_range >= 0, "transformer_xl: initializer_range is ", c.initializer_range,
                     ", wanted at least 0");
  build(c.vocab_size, segment_stack(c), c.tied, /*scaled=*/true);
  for (SegmentMemory& memory : memories_) memory.length = c.memory;
  initialize();
}

void TransformerXlImpl::initialize() { init::normal(*this, config_.initializer_range); }

LossSum TransformerXlImpl::loss(const Batch& batch, double label_smoothing) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !batch.documents.defined() && !batch.positions.defined(),
                   "transformer_xl: memory goes through one text; packed texts have none in common");
  SegmentMemory& memory = memories_[is_training()];
  if (!batch.continues) memory.layers.clear();
  FOVEA_CHECK_KIND(ErrorKind::kArgument, memory.layers.empty() || memory.layers[0].size(0) == batch.ids.size(0),
                   "transformer_xl: the batch has ", batch.ids.size(0), " rows, the one that it continues had ",
                   memory.layers.empty() ? 0 : memory.layers[0].size(0));
  // Padding on the right stands after every label that counts.
  const Tensor hidden = decoder_->forward(embedding_->forward(batch.ids), {.segments = &memory});  // [B, T, C]
  return loss_of(hidden, batch.labels, label_smoothing);
}

Tensor TransformerXlImpl::step(const Tensor& ids, DecoderState& state, bool last_only) const {
  const Tensor out = DecoderOnlyImpl::step(ids, state, last_only);
  const int64_t dropped = std::max<int64_t>(0, state.length() - config_.memory);
  for (LayerCache& layer : state.self) layer.keep_newest(config_.memory);
  if (state.start.defined() && dropped > 0) state.start = (state.start - dropped).clamp_min(0);
  return out;
}

TransformerXlConfig TransformerXlImpl::read_config(const nlohmann::json& json) {
  TransformerXlConfig c;
  fill_from_json(c, json, "config.json", UnknownKeys::kIgnore);  // ids of tokens stand there too
  c.vocab_size = config_size(json, "vocab_size", c.vocab_size);
  return c;
}

nlohmann::json TransformerXlImpl::config() const {
  nlohmann::json out{{"model_type", "transformer_xl"}, {"vocab_size", config_.vocab_size}};
  write_to_json(config_, out);
  return out;
}

std::vector<TensorName> TransformerXlImpl::tensor_names() const { return own_names(*this); }

void register_models_transformer_xl(ModelsRegistry& registry) {
  registry.add("transformer_xl", {.from_config = [](const nlohmann::json& config) -> Model {
                                    return std::make_shared<TransformerXlImpl>(TransformerXlImpl::read_config(config));
                                  },
                                  .recipe = [] { return std::make_unique<TransformerXlRecipe>(); }});
}

}  // namespace fovea
