// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/gpt2.h"

#include "fovea/base/size.h"
#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

StackOptions gpt2_stack(const Gpt2Config& c) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width, .heads = c.heads, .dropout = c.attention_dropout},
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .eps = c.eps,
                    .pre_norm = true,
                    .dropout = c.residual_dropout},
          .position = "learned",
          .positions = {.max_positions = c.positions},
          .causal = true,
          .embed_dropout = c.embedding_dropout,
          .final_norm = true};
}

class Gpt2Recipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override {
    v.field("width", config_.width, "channels");
    v.field("layers", config_.layers, "blocks");
    v.field("heads", config_.heads, "attention heads");
    v.field("hidden", config_.hidden, "width of the feed-forward; 0: 4 times width");
    v.field("positions", config_.positions, "longest sequence");
    v.field("activation", config_.activation, "of the feed-forward");
    v.field("dropout", dropout_, "on residuals, embeddings and attention weights");
    v.field("tied", config_.tied, "output projection = embedding");
    v.field("initializer_range", config_.initializer_range, "deviation of initial weights");
  }
  nlohmann::json config(int64_t vocab_size) const override {
    Gpt2Config c = config_;
    c.vocab_size = vocab_size;
    c.residual_dropout = c.embedding_dropout = c.attention_dropout = dropout_;
    return Gpt2(c)->config();
  }

 private:
  Gpt2Config config_{.positions = 128, .width = 128, .layers = 4, .heads = 4};
  double dropout_ = 0;
};

}  // namespace

Gpt2Impl::Gpt2Impl(Gpt2Config config) : config_(std::move(config)) {
  FOVEA_CHECK_CONFIG(config_.initializer_range >= 0, "gpt2: initializer_range is ", config_.initializer_range,
                     ", wanted at least 0");
  if (config_.hidden == 0) config_.hidden = times(4, config_.width);
  build(config_.vocab_size, gpt2_stack(config_), config_.tied);
  initialize();
}

void Gpt2Impl::initialize() {
  init::normal(*this, config_.initializer_range);
  init::residual(*this, config_.initializer_range, config_.layers);
}

Gpt2Config Gpt2Impl::read_config(const nlohmann::json& j) {
  require_config(j, "scale_attn_weights", true);
  require_config(j, "scale_attn_by_inverse_layer_idx", false);
  require_config(j, "add_cross_attention", false);
  Gpt2Config c;
  c.vocab_size = config_size(j, "vocab_size", c.vocab_size);
  c.positions = config_size(j, "n_positions", c.positions);
  c.width = config_size(j, "n_embd", c.width);
  c.layers = config_size(j, "n_layer", c.layers);
  c.heads = config_size(j, "n_head", c.heads);
  if (j.contains("n_inner") && !j["n_inner"].is_null()) c.hidden = config_size(j, "n_inner", 1);
  c.activation = config_value(j, "activation_function", c.activation);
  c.residual_dropout = config_value(j, "resid_pdrop", c.residual_dropout);
  c.embedding_dropout = config_value(j, "embd_pdrop", c.embedding_dropout);
  c.attention_dropout = config_value(j, "attn_pdrop", c.attention_dropout);
  c.eps = config_value(j, "layer_norm_epsilon", c.eps);
  c.initializer_range = config_value(j, "initializer_range", c.initializer_range);
  c.tied = config_value(j, "tie_word_embeddings", c.tied);
  return c;
}

nlohmann::json Gpt2Impl::config() const {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", config_.vocab_size},
          {"n_positions", config_.positions},
          {"n_ctx", config_.positions},
          {"n_embd", config_.width},
          {"n_layer", config_.layers},
          {"n_head", config_.heads},
          {"n_inner", config_.hidden},
          {"activation_function", config_.activation},
          {"resid_pdrop", config_.residual_dropout},
          {"embd_pdrop", config_.embedding_dropout},
          {"attn_pdrop", config_.attention_dropout},
          {"layer_norm_epsilon", config_.eps},
          {"initializer_range", config_.initializer_range},
          {"tie_word_embeddings", config_.tied}};
}

std::vector<TensorName> Gpt2Impl::tensor_names() const {
  std::vector<TensorName> out;
  const auto both = [&](const std::string& stored, const std::string& ours) {
    for (const char* part : {".weight", ".bias"}) out.push_back({.stored = stored + part, .ours = {ours + part}});
  };
  // Hugging Face's Conv1D keeps its matrix as [in, out].
  const auto conv = [&](const std::string& stored, const std::vector<std::string>& ours) {
    for (const char* part : {".weight", ".bias"}) {
      TensorName name{.stored = stored + part, .transposed = std::string(part) == ".weight"};
      for (const auto& module : ours) name.ours.push_back(module + part);
      out.push_back(std::move(name));
    }
  };
  out.push_back({.stored = "transformer.wte.weight", .ours = {"embedding.weight"}});
  if (config_.tied) {
    out.back().aliases = {"lm_head.weight"};
  } else {
    out.push_back({.stored = "lm_head.weight", .ours = {"head.weight"}});
  }
  out.push_back({.stored = "transformer.wpe.weight", .ours = {"decoder.position.weight"}});
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string h = "transformer.h." + std::to_string(i), l = "decoder.layers." + std::to_string(i);
    both(h + ".ln_1", l + ".attention_norm");
    conv(h + ".attn.c_attn", {l + ".attention.query", l + ".attention.key", l + ".attention.value"});
    conv(h + ".attn.c_proj", {l + ".attention.output"});
    both(h + ".ln_2", l + ".feed_forward_norm");
    conv(h + ".mlp.c_fc", {l + ".feed_forward.up"});
    conv(h + ".mlp.c_proj", {l + ".feed_forward.down"});
  }
  both("transformer.ln_f", "decoder.final_norm");
  return out;
}

// Causal masks that older files carry as buffers.
std::vector<std::string> Gpt2Impl::harmless_names() const { return {"*h.*.attn.bias", "*h.*.attn.masked_bias"}; }

void register_models_gpt2(ModelsRegistry& registry) {
  registry.add("gpt2", {.from_config = [](const nlohmann::json& config) -> Model {
                          return std::make_shared<Gpt2Impl>(Gpt2Impl::read_config(config));
                        },
                        .architectures = {"GPT2LMHeadModel"},
                        .recipe = [] { return std::make_unique<Gpt2Recipe>(); }});
}

}  // namespace fovea
