// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/decoder.h"

#include <nlohmann/json.hpp>

#include "fovea/attention/variants/registry.h"
#include "fovea/io/json.h"
#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

constexpr const char* kAdded = "take \"sinusoidal\" or \"learned\", which are added to the embeddings";

StackOptions named_stack(const DecoderConfig& c) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width,
                                  .heads = c.heads,
                                  .kv_heads = c.kv_heads,
                                  .dropout = c.attention_dropout,
                                  .variant = c.attention},
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .norm = c.norm,
                    .eps = c.eps,
                    .pre_norm = true,
                    .dropout = c.dropout},
          .position = c.position,
          .positions = c.positions,
          .causal = true,
          .embed_dropout = c.dropout,
          .final_norm = true};
}

// `"linear" or "softmax"`: those that a decoder can have.
std::string decoder_variants() {
  std::string out;
  for (const auto& [name, entry] : variants_registry().entries())
    if (entry.causal && !entry.told) out += (out.empty() ? "\"" : " or \"") + name + '"';
  return out;
}

class DecoderRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override { config_.visit(v); }
  nlohmann::json config(int64_t vocab_size) const override {
    DecoderConfig c = config_;
    c.vocab_size = vocab_size;
    return Decoder(c)->config();
  }

 private:
  DecoderConfig config_;
};

}  // namespace

void DecoderConfig::visit(FieldVisitor& v) {
  v.field("width", width, "channels");
  v.field("layers", layers, "blocks");
  v.field("heads", heads, "attention heads");
  v.field("kv_heads", kv_heads, "key/value heads; 0: as many as heads");
  v.field("hidden", hidden, "width of the feed-forward; 0: 4 times width");
  v.field("activation", activation, "of the feed-forward; gated by name (swiglu)");
  v.field("norm", norm, "layer or rms");
  v.field("eps", eps, "of the norms");
  v.field("position", position, "an encoding by name; none");
  visit_section(v, "positions", positions);
  v.field("attention", attention, "softmax or linear");
  v.field("dropout", dropout, "on embeddings and what each part adds");
  v.field("attention_dropout", attention_dropout, "on attention weights");
  v.field("scale_embedding", scale_embedding, "embeddings times the root of width on the way in");
  v.field("tied", tied, "output projection = embedding");
  v.field("initializer_range", initializer_range, "deviation of initial weights");
}

DecoderImpl::DecoderImpl(DecoderConfig config) : config_(std::move(config)) {
  FOVEA_CHECK_CONFIG(config_.initializer_range >= 0, "decoder: initializer_range is ", config_.initializer_range,
                     ", wanted at least 0");
  FOVEA_CHECK_CONFIG(!config_.position.ends_with("_2d"), "decoder: position \"", config_.position,
                     "\" is of rows and columns, which a text has not; wanted one without \"_2d\"");
  const VariantEntry& arithmetic = variants_registry().at(config_.attention);
  FOVEA_CHECK_CONFIG(arithmetic.causal, "decoder: attention \"", config_.attention,
                     "\" mixes all keys before a query comes; a decoder's sees the earlier ones only; wanted ",
                     decoder_variants());
  FOVEA_CHECK_CONFIG(!arithmetic.told, "decoder: attention \"", config_.attention,
                     "\" is told which tokens are global; a decoder has none; wanted ", decoder_variants());
  build(config_.vocab_size, named_stack(config_), config_.tied, config_.scale_embedding);
  FOVEA_CHECK_CONFIG(arithmetic.scored || decoder_->position->score(1, 1).is_empty(), "decoder: position \"",
                     config_.position, "\" shifts scores, of which attention \"", config_.attention, "\" has none; ",
                     kAdded);
  FOVEA_CHECK_CONFIG(arithmetic.scored || decoder_->position->tables(Positions(int64_t{0}), 1, {}).empty(),
                     "decoder: position \"", config_.position, "\" turns query and key, of whose product attention \"",
                     config_.attention, "\" makes no scores: it would say nothing of distances; ", kAdded);
  initialize();
}

void DecoderImpl::initialize() {
  init::normal(*this, config_.initializer_range);
  init::residual(*this, config_.initializer_range, config_.layers);
}

DecoderConfig DecoderImpl::read_config(const nlohmann::json& json) {
  DecoderConfig c;
  fill_from_json(c, json, "config.json", UnknownKeys::kIgnore);  // ids of tokens stand there too
  c.vocab_size = config_size(json, "vocab_size", c.vocab_size);
  return c;
}

nlohmann::json DecoderImpl::config() const {
  nlohmann::json out{{"model_type", "decoder"}, {"vocab_size", config_.vocab_size}};
  write_to_json(config_, out);
  return out;
}

std::vector<TensorName> DecoderImpl::tensor_names() const { return own_names(*this); }

void register_models_decoder(ModelsRegistry& registry) {
  registry.add("decoder", {.from_config = [](const nlohmann::json& config) -> Model {
                             return std::make_shared<DecoderImpl>(DecoderImpl::read_config(config));
                           },
                           .recipe = [] { return std::make_unique<DecoderRecipe>(); }});
}

}  // namespace fovea
