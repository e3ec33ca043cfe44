// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/transformer.h"

#include <nlohmann/json.hpp>

#include "fovea/io/json.h"
#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

StackOptions transformer_stack(const TransformerConfig& c, bool decoder) {
  return {.layers = decoder ? c.decoder_layers : c.encoder_layers,
          .block = {.attention = {.width = c.width, .heads = c.heads, .dropout = c.attention_dropout},
                    .cross_attention = decoder,
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .eps = c.eps,
                    .pre_norm = c.pre_norm,
                    .dropout = c.dropout},
          .position = "sinusoidal",
          .positions = {.max_positions = c.positions},
          .causal = decoder,
          .embed_dropout = c.dropout,
          .final_norm = c.pre_norm};
}

class TransformerRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override { config_.visit(v); }
  nlohmann::json config(int64_t vocab_size) const override {
    TransformerConfig c = config_;
    c.vocab_size = vocab_size;
    return Transformer(c)->config();
  }

 private:
  TransformerConfig config_;
};

}  // namespace

void TransformerConfig::visit(FieldVisitor& v) {
  v.field("width", width, "channels");
  v.field("encoder_layers", encoder_layers, "blocks of the encoder");
  v.field("decoder_layers", decoder_layers, "blocks of the decoder");
  v.field("heads", heads, "attention heads");
  v.field("hidden", hidden, "width of the feed-forward");
  v.field("positions", positions, "longest sequence");
  v.field("activation", activation, "of the feed-forward");
  v.field("dropout", dropout, "on embeddings and what each part adds");
  v.field("attention_dropout", attention_dropout, "on attention weights");
  v.field("pre_norm", pre_norm, "norm before each part instead of after the sum");
  v.field("shared_embeddings", shared_embeddings, "one table for source and target");
  v.field("tied", tied, "output projection = target table");
  v.field("source_vocab_size", source_vocab_size, "0: one vocabulary for both sides");
  v.field("eps", eps, "of the norms");
  v.field("bos_token_id", bos_token_id, "what the decoder starts from");
  v.field("eos_token_id", eos_token_id, "what ends a text");
  v.field("pad_token_id", pad_token_id, "what fills rows");
}

TransformerImpl::TransformerImpl(TransformerConfig config) : config_(std::move(config)) {
  TransformerConfig& c = config_;
  FOVEA_CHECK_CONFIG(c.vocab_size > 0, "transformer: vocab_size is ", c.vocab_size, ", wanted a positive number");
  FOVEA_CHECK_CONFIG(!c.shared_embeddings || c.source_vocab_size == 0 || c.source_vocab_size == c.vocab_size,
                     "transformer: shared_embeddings needs one vocabulary, but source_vocab_size is ",
                     c.source_vocab_size, " and vocab_size ", c.vocab_size);
  const auto table = [&](int64_t rows) {
    return EmbeddingOptions{.vocabulary = rows, .width = c.width, .scale = true};
  };
  const int64_t source_rows = c.source_vocab_size > 0 ? c.source_vocab_size : c.vocab_size;
  build({.encoder = transformer_stack(c, false),
         .decoder = transformer_stack(c, true),
         .target_embedding = table(c.vocab_size),
         .source_embedding = table(c.shared_embeddings ? 0 : source_rows),
         .tied = c.tied});
  initialize();
}

void TransformerImpl::initialize() { init::xavier(*this); }

nlohmann::json TransformerImpl::config() const {
  nlohmann::json out{
      {"model_type", "transformer"}, {"architectures", {"FoveaTransformer"}}, {"vocab_size", config_.vocab_size}};
  write_to_json(config_, out);
  return out;
}

std::vector<TensorName> TransformerImpl::tensor_names() const {
  std::vector<TensorName> out;
  for (const auto& parameter : named_parameters())
    out.push_back({.stored = parameter.key(), .ours = {parameter.key()}});
  return out;
}

void register_models_transformer(ModelsRegistry& registry) {
  registry.add("transformer", {.from_config = [](const nlohmann::json& config) -> Model {
                                 TransformerConfig c;
                                 fill_from_json(c, config, "config.json", UnknownKeys::kIgnore);
                                 c.vocab_size = config_value(config, "vocab_size", c.vocab_size);
                                 return std::make_shared<TransformerImpl>(c);
                               },
                               .architectures = {"FoveaTransformer"},
                               .recipe = [] { return std::make_unique<TransformerRecipe>(); }});
}

}  // namespace fovea
