// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/t5.h"

#include <torch/nn/init.h>

#include <cmath>
#include <string_view>

#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

StackOptions t5_stack(const T5Config& c, bool decoder) {
  return {.layers = decoder ? c.decoder_layers : c.layers,
          .block = {.attention = {.width = c.width,
                                  .heads = c.heads,
                                  .head_width = c.head_width,
                                  .bias = false,
                                  .dropout = c.dropout,
                                  .scale = 1},
                    .cross_attention = decoder,
                    .feed_forward = {.hidden = c.hidden,
                                     .activation = c.activation,
                                     .gated = c.gated,
                                     .bias = false,
                                     .dropout = c.dropout},
                    .norm = "rms",
                    .eps = c.eps,
                    .pre_norm = true,
                    .dropout = c.dropout},
          .position = "t5_bias",
          .positions = {.buckets = c.buckets, .max_distance = c.max_distance, .bidirectional = !decoder},
          .causal = decoder,
          .embed_dropout = c.dropout,
          .final_norm = true,
          .final_dropout = c.dropout};
}

class T5Recipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override {
    v.field("width", config_.width, "channels");
    v.field("head_width", config_.head_width, "channels of a head; 0: width / heads");
    v.field("hidden", config_.hidden, "width of the feed-forward");
    v.field("layers", config_.layers, "blocks of the encoder");
    v.field("decoder_layers", config_.decoder_layers, "blocks of the decoder");
    v.field("heads", config_.heads, "attention heads");
    v.field("buckets", config_.buckets, "distances told apart");
    v.field("max_distance", config_.max_distance, "distances from here on share a bucket");
    v.field("activation", config_.activation, "of the feed-forward");
    v.field("gated", config_.gated, "feed-forward with a gate");
    v.field("dropout", config_.dropout, "on embeddings, attention weights and what each part adds");
    v.field("eps", config_.eps, "of the norms");
    v.field("tied", config_.tied, "output projection = embedding, its logits scaled");
    v.field("initializer_factor", config_.initializer_factor, "of the deviation of initial weights");
  }
  nlohmann::json config(int64_t vocab_size) const override {
    T5Config c = config_;
    c.vocab_size = vocab_size;
    c.scale_logits = c.tied;
    if (c.head_width == 0) c.head_width = c.width / std::max<int64_t>(c.heads, 1);
    return T5(c)->config();
  }

 private:
  T5Config config_{.width = 128,
                   .head_width = 0,
                   .hidden = 512,
                   .layers = 2,
                   .decoder_layers = 2,
                   .heads = 4,
                   .dropout = 0,
                   .roles = {}};
};

}  // namespace

T5Impl::T5Impl(T5Config config) : config_(std::move(config)) {
  T5Config& c = config_;
  FOVEA_CHECK_CONFIG(c.initializer_factor >= 0, "t5: initializer_factor is ", c.initializer_factor,
                     ", wanted at least 0");
  if (c.roles.decoder_start < 0) c.roles.decoder_start = c.roles.pad;
  build({.encoder = t5_stack(c, false),
         .decoder = t5_stack(c, true),
         .target_embedding = {.vocabulary = c.vocab_size, .width = c.width},
         .tied = c.tied});
  initialize();
}

// Deviations as in Mesh TensorFlow: scores are not scaled, so the queries' weights are smaller.
void T5Impl::initialize() {
  if (Undrawn::here()) return;
  const T5Config& c = config_;
  init::normal(*this, c.initializer_factor);
  const at::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) {
    const std::string_view name = item.key();
    double fan = 1;
    if (name.ends_with("query.weight")) fan = double(c.width * c.head_width);
    if (name.ends_with("key.weight") || name.ends_with("value.weight")) fan = double(c.width);
    if (name.ends_with("output.weight")) fan = double(c.heads * c.head_width);
    if (name.ends_with("gate.weight") || name.ends_with("up.weight")) fan = double(c.width);
    if (name.ends_with("down.weight")) fan = double(c.hidden);
    if (name.ends_with("position.weight")) fan = double(c.width);
    if (fan > 1) Tensor(item.value()).div_(std::sqrt(fan));
  }
}

Tensor T5Impl::scaled(const Tensor& hidden) const {
  return config_.scale_logits ? hidden / std::sqrt(double(config_.width)) : hidden;
}

T5Config T5Impl::read_config(const nlohmann::json& j) {
  require_config(j, "is_encoder_decoder", true);
  T5Config c;
  c.vocab_size = config_size(j, "vocab_size", c.vocab_size);
  c.width = config_size(j, "d_model", c.width);
  c.head_width = config_size(j, "d_kv", c.head_width);
  c.hidden = config_size(j, "d_ff", c.hidden);
  c.layers = config_size(j, "num_layers", c.layers);
  c.decoder_layers = config_size(j, "num_decoder_layers", c.layers);
  c.heads = config_size(j, "num_heads", c.heads);
  c.buckets = config_size(j, "relative_attention_num_buckets", c.buckets);
  c.max_distance = config_size(j, "relative_attention_max_distance", c.max_distance);
  // "relu", "gated-silu" …; "gated-gelu" means the tanh form.
  c.activation = config_value(j, "feed_forward_proj", c.activation);
  if (c.activation.starts_with("gated-")) {
    c.gated = true;
    c.activation = c.activation == "gated-gelu" ? "gelu_new" : c.activation.substr(6);
  }
  c.dropout = config_value(j, "dropout_rate", c.dropout);
  c.eps = config_value(j, "layer_norm_epsilon", c.eps);
  c.initializer_factor = config_value(j, "initializer_factor", c.initializer_factor);
  // Older folders say by the first that logits are not scaled; newer ones by the second, and then the weights alone
  // tell whether there is a projection (leave_out).
  const bool tied = config_value(j, "tie_word_embeddings", true);
  c.scale_logits = config_value(j, "scale_decoder_outputs", tied);
  c.tied = tied && c.scale_logits;
  c.roles = TokenRoles::read(j, c.roles);
  return c;
}

nlohmann::json T5Impl::config() const {
  const T5Config& c = config_;
  const std::string activation = c.gated && c.activation == "gelu_new" ? "gelu" : c.activation;
  nlohmann::json out{{"model_type", "t5"},
                     {"architectures", {"T5ForConditionalGeneration"}},
                     {"is_encoder_decoder", true},
                     {"vocab_size", c.vocab_size},
                     {"d_model", c.width},
                     {"d_kv", c.head_width},
                     {"d_ff", c.hidden},
                     {"num_layers", c.layers},
                     {"num_decoder_layers", c.decoder_layers},
                     {"num_heads", c.heads},
                     {"relative_attention_num_buckets", c.buckets},
                     {"relative_attention_max_distance", c.max_distance},
                     {"feed_forward_proj", (c.gated ? "gated-" : "") + activation},
                     {"dropout_rate", c.dropout},
                     {"layer_norm_epsilon", c.eps},
                     {"initializer_factor", c.initializer_factor},
                     {"tie_word_embeddings", c.tied},
                     {"scale_decoder_outputs", c.scale_logits}};
  c.roles.write(out);
  return out;
}

std::vector<TensorName> T5Impl::tensor_names() const {
  const T5Config& c = config_;
  std::vector<TensorName> out;
  const auto add = [&](const std::string& stored, const std::string& ours) {
    out.push_back({.stored = stored + ".weight", .ours = {ours + ".weight"}});
  };
  add("shared", "target_embedding");
  out.back().aliases = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
  if (head_.is_empty()) {
    out.back().aliases.push_back("lm_head.weight");
  } else {
    add("lm_head", "head");
    out.back().optional = !c.scale_logits;
  }
  for (const bool decoder : {false, true}) {
    const std::string stack = decoder ? "decoder" : "encoder";
    add(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias", stack + ".position");
    for (int64_t i = 0; i < (decoder ? c.decoder_layers : c.layers); ++i) {
      const std::string block = stack + ".block." + std::to_string(i) + ".layer.";
      const std::string l = stack + ".layers." + std::to_string(i);
      const auto attention = [&](const std::string& layer, const std::string& stored, const std::string& ours) {
        add(layer + ".layer_norm", ours + "_norm");
        add(layer + "." + stored + ".q", ours + ".query");
        add(layer + "." + stored + ".k", ours + ".key");
        add(layer + "." + stored + ".v", ours + ".value");
        add(layer + "." + stored + ".o", ours + ".output");
      };
      attention(block + "0", "SelfAttention", l + ".attention");
      if (decoder) attention(block + "1", "EncDecAttention", l + ".cross_attention");
      const std::string last = block + (decoder ? "2" : "1"), inner = last + ".DenseReluDense.";
      add(last + ".layer_norm", l + ".feed_forward_norm");
      if (c.gated) add(inner + "wi_0", l + ".feed_forward.gate");
      add(inner + (c.gated ? "wi_1" : "wi"), l + ".feed_forward.up");
      add(inner + "wo", l + ".feed_forward.down");
    }
    add(stack + ".final_layer_norm", stack + ".final_norm");
  }
  return out;
}

// A table that the first release stored and never used.
std::vector<std::string> T5Impl::harmless_names() const {
  return {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
}

void T5Impl::leave_out(const std::vector<std::string>& absent) {
  if (absent.empty()) return;  // only the output projection may be absent: the embedding takes its place
  unregister_module("head");
  head_ = nullptr;
  config_.tied = true;
}

void register_models_t5(ModelsRegistry& registry) {
  registry.add("t5", {.from_config = [](const nlohmann::json& config) -> Model {
                        return std::make_shared<T5Impl>(T5Impl::read_config(config));
                      },
                      .architectures = {"T5ForConditionalGeneration", "T5WithLMHeadModel"},
                      .recipe = [] { return std::make_unique<T5Recipe>(); }});
}

}  // namespace fovea
