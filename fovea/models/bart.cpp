// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bart.h"

#include <ATen/ops/zeros.h>

#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

constexpr int64_t kBartOffset = 2;  // rows of the position table before position 0

StackOptions bart_stack(const BartConfig& c, bool decoder) {
  return {.layers = decoder ? c.decoder_layers : c.encoder_layers,
          .block = {.attention = {.width = c.width,
                                  .heads = decoder ? c.decoder_heads : c.encoder_heads,
                                  .dropout = c.attention_dropout},
                    .cross_attention = decoder,
                    .feed_forward = {.hidden = decoder ? c.decoder_hidden : c.encoder_hidden,
                                     .activation = c.activation,
                                     .dropout = c.activation_dropout},
                    .pre_norm = false,
                    .dropout = c.dropout},
          .position = "learned",
          .positions = {.max_positions = c.positions, .offset = kBartOffset},
          .causal = decoder,
          .embed_norm = true,
          .embed_dropout = c.dropout};
}

class BartRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override {
    v.field("width", config_.width, "channels");
    v.field("encoder_layers", config_.encoder_layers, "blocks of the encoder");
    v.field("decoder_layers", config_.decoder_layers, "blocks of the decoder");
    v.field("heads", config_.encoder_heads, "attention heads");
    v.field("hidden", config_.encoder_hidden, "width of the feed-forward");
    v.field("positions", config_.positions, "longest sequence");
    v.field("activation", config_.activation, "of the feed-forward");
    v.field("dropout", config_.dropout, "on embeddings and what each part adds");
    v.field("attention_dropout", config_.attention_dropout, "on attention weights");
    v.field("activation_dropout", config_.activation_dropout, "on the feed-forward's hidden layer");
    v.field("scale_embedding", config_.scale_embedding, "embeddings times the root of width");
    v.field("tied", config_.tied, "one table: both embeddings and the output projection");
    v.field("init_std", config_.init_std, "deviation of initial weights");
  }
  nlohmann::json config(int64_t vocab_size) const override {
    BartConfig c = config_;
    c.vocab_size = vocab_size;
    c.decoder_heads = c.encoder_heads;
    c.decoder_hidden = c.encoder_hidden;
    return Bart(c)->config();
  }

 private:
  BartConfig config_{.positions = 128,
                     .width = 128,
                     .encoder_layers = 2,
                     .decoder_layers = 2,
                     .encoder_heads = 4,
                     .encoder_hidden = 512,
                     .dropout = 0,
                     .roles = {},
                     .forced_eos = -1};
};

}  // namespace

BartImpl::BartImpl(BartConfig config) : config_(std::move(config)) {
  BartConfig& c = config_;
  FOVEA_CHECK_CONFIG(c.init_std >= 0, "bart: init_std is ", c.init_std, ", wanted at least 0");
  // Targets begin with the token that ended the text before.
  if (c.roles.decoder_start < 0 && !c.roles.eos.empty()) c.roles.decoder_start = c.roles.eos.front();
  const EmbeddingOptions table{.vocabulary = c.vocab_size, .width = c.width, .scale = c.scale_embedding};
  build({.encoder = bart_stack(c, false),
         .decoder = bart_stack(c, true),
         .target_embedding = table,
         .source_embedding = c.tied ? EmbeddingOptions{} : table,
         .tied = c.tied});
  logits_bias_ = register_parameter("logits_bias", at::zeros({1, c.vocab_size}), /*requires_grad=*/false);
  initialize();
}

void BartImpl::initialize() {
  init::normal(*this, config_.init_std);
  const at::NoGradGuard no_grad;
  logits_bias_.zero_();
}

// Zero in every model that was trained with it left alone; then the loss needs no logits.
Tensor BartImpl::logits_bias() const { return logits_bias_.any().item<bool>() ? logits_bias_ : Tensor(); }

BartConfig BartImpl::read_config(const nlohmann::json& j) {
  require_config(j, "is_encoder_decoder", true);
  require_config(j, "normalize_before", false);
  require_config(j, "normalize_embedding", true);
  require_config(j, "add_final_layer_norm", false);
  require_config(j, "static_position_embeddings", false);
  require_config(j, "extra_pos_embeddings", kBartOffset);
  require_config(j, "encoder_layerdrop", 0.0);
  require_config(j, "decoder_layerdrop", 0.0);
  BartConfig c;
  c.vocab_size = config_size(j, "vocab_size", c.vocab_size);
  c.positions = config_size(j, "max_position_embeddings", c.positions);
  c.width = config_size(j, "d_model", c.width);
  c.encoder_layers = config_size(j, "encoder_layers", c.encoder_layers);
  c.decoder_layers = config_size(j, "decoder_layers", c.decoder_layers);
  c.encoder_heads = config_size(j, "encoder_attention_heads", c.encoder_heads);
  c.decoder_heads = config_size(j, "decoder_attention_heads", c.decoder_heads);
  c.encoder_hidden = config_size(j, "encoder_ffn_dim", c.encoder_hidden);
  c.decoder_hidden = config_size(j, "decoder_ffn_dim", c.decoder_hidden);
  c.activation = config_value(j, "activation_function", c.activation);
  c.dropout = config_value(j, "dropout", c.dropout);
  c.attention_dropout = config_value(j, "attention_dropout", c.attention_dropout);
  c.activation_dropout = config_value(j, "activation_dropout", c.activation_dropout);
  c.init_std = config_value(j, "init_std", c.init_std);
  c.scale_embedding = config_value(j, "scale_embedding", c.scale_embedding);
  c.tied = config_value(j, "tie_word_embeddings", c.tied);
  c.roles = TokenRoles::read(j, c.roles);
  c.forced_bos = read_token_id(j, "forced_bos_token_id", c.forced_bos);
  c.forced_eos = read_token_id(j, "forced_eos_token_id", c.forced_eos);
  return c;
}

nlohmann::json BartImpl::config() const {
  const BartConfig& c = config_;
  nlohmann::json out{{"model_type", "bart"},
                     {"architectures", {"BartForConditionalGeneration"}},
                     {"is_encoder_decoder", true},
                     {"vocab_size", c.vocab_size},
                     {"max_position_embeddings", c.positions},
                     {"d_model", c.width},
                     {"encoder_layers", c.encoder_layers},
                     {"decoder_layers", c.decoder_layers},
                     {"encoder_attention_heads", c.encoder_heads},
                     {"decoder_attention_heads", c.decoder_heads},
                     {"encoder_ffn_dim", c.encoder_hidden},
                     {"decoder_ffn_dim", c.decoder_hidden},
                     {"activation_function", c.activation},
                     {"dropout", c.dropout},
                     {"attention_dropout", c.attention_dropout},
                     {"activation_dropout", c.activation_dropout},
                     {"init_std", c.init_std},
                     {"scale_embedding", c.scale_embedding},
                     {"tie_word_embeddings", c.tied}};
  c.roles.write(out);
  out["forced_bos_token_id"] = id_or_null(c.forced_bos);
  out["forced_eos_token_id"] = id_or_null(c.forced_eos);
  return out;
}

std::vector<TensorName> BartImpl::tensor_names() const {
  const BartConfig& c = config_;
  std::vector<TensorName> out;
  if (c.tied) {
    out.push_back(
        {.stored = "model.shared.weight",
         .ours = {"target_embedding.weight"},
         .aliases = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}});
  } else {
    out.push_back({.stored = "model.encoder.embed_tokens.weight", .ours = {"source_embedding.weight"}});
    out.push_back({.stored = "model.decoder.embed_tokens.weight", .ours = {"target_embedding.weight"}});
    out.push_back({.stored = "lm_head.weight", .ours = {"head.weight"}});
  }
  out.push_back({.stored = "final_logits_bias", .ours = {"logits_bias"}, .optional = true});
  const auto both = [&](const std::string& stored, const std::string& ours) {
    for (const char* part : {".weight", ".bias"}) out.push_back({.stored = stored + part, .ours = {ours + part}});
  };
  const auto attention = [&](const std::string& stored, const std::string& ours) {
    both(stored + ".q_proj", ours + ".query");
    both(stored + ".k_proj", ours + ".key");
    both(stored + ".v_proj", ours + ".value");
    both(stored + ".out_proj", ours + ".output");
    both(stored + "_layer_norm", ours + "_norm");
  };
  for (const bool decoder : {false, true}) {
    const std::string ours = decoder ? "decoder" : "encoder", stored = "model." + ours;
    out.push_back({.stored = stored + ".embed_positions.weight", .ours = {ours + ".position.weight"}});
    both(stored + ".layernorm_embedding", ours + ".embed_norm");
    for (int64_t i = 0; i < (decoder ? c.decoder_layers : c.encoder_layers); ++i) {
      const std::string h = stored + ".layers." + std::to_string(i), l = ours + ".layers." + std::to_string(i);
      attention(h + ".self_attn", l + ".attention");
      if (decoder) attention(h + ".encoder_attn", l + ".cross_attention");
      both(h + ".fc1", l + ".feed_forward.up");
      both(h + ".fc2", l + ".feed_forward.down");
      both(h + ".final_layer_norm", l + ".feed_forward_norm");
    }
  }
  return out;
}

// A number that files of the first releases carry, and a table that nobody reads where nothing is tied.
std::vector<std::string> BartImpl::harmless_names() const {
  std::vector<std::string> out{"*encoder.version", "*decoder.version"};
  if (!config_.tied) out.push_back("*shared.weight");
  return out;
}

void register_models_bart(ModelsRegistry& registry) {
  registry.add("bart", {.from_config = [](const nlohmann::json& config) -> Model {
                          return std::make_shared<BartImpl>(BartImpl::read_config(config));
                        },
                        .architectures = {"BartForConditionalGeneration"},
                        .recipe = [] { return std::make_unique<BartRecipe>(); }});
}

}  // namespace fovea
