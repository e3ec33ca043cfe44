// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/llama.h"

#include <algorithm>

#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"
#include "fovea/models/rope_json.h"

namespace fovea {
namespace {

const std::vector<std::string> kLlamaTypes{"llama", "mistral", "qwen2"};

std::string llama_architecture(const std::string& type) {
  return type == "llama" ? "LlamaForCausalLM" : type == "mistral" ? "MistralForCausalLM" : "Qwen2ForCausalLM";
}

// Linear and dynamic scaling go beyond the positions that config.json names, the second without end: its angles follow
// the text. The others count what they reach.
int64_t llama_positions(const LlamaConfig& c) {
  if (c.rope_scaling.type == "dynamic") return 0;  // no limit
  const double factor = c.rope_scaling.type == "linear" ? c.rope_scaling.factor : 1;
  return factor > 1 ? int64_t(double(c.positions) * factor) : c.positions;  // the encoding refuses others
}

StackOptions llama_stack(const LlamaConfig& c) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width,
                                  .heads = c.heads,
                                  .kv_heads = c.kv_heads,
                                  .head_width = c.head_width,
                                  .bias = c.attention_bias,
                                  .output_bias = c.output_bias,
                                  .dropout = c.attention_dropout},
                    .feed_forward =
                        {.hidden = c.hidden, .activation = c.activation, .gated = true, .bias = c.feed_forward_bias},
                    .norm = "rms",
                    .eps = c.eps,
                    .pre_norm = true},
          .position = "rope",
          .positions = {.max_positions = llama_positions(c), .base = c.rope_base, .scaling = c.rope_scaling},
          .causal = true,
          .window = c.window,
          .final_norm = true};
}

// Layers that see all and layers with a window in one model: not built.
int64_t llama_window(const nlohmann::json& j, const LlamaConfig& c) {
  int64_t window = config_value(j, "sliding_window", c.window);
  bool windowed = window > 0;
  if (c.type == "qwen2") {
    windowed = windowed && config_value(j, "use_sliding_window", false);
    const int64_t full = std::clamp<int64_t>(config_value(j, "max_window_layers", int64_t{28}), 0, c.layers);
    if (windowed && !j.contains("layer_types")) {
      FOVEA_CHECK_INPUT(full == 0 || full == c.layers, "config.json: \"max_window_layers\" is ", full, " of ", c.layers,
                        " layers; a window in some layers only is not supported");
      windowed = full == 0;
    }
  }
  if (j.contains("sliding_window") && j["sliding_window"].is_null()) windowed = false;
  const auto types = j.find("layer_types");
  if (types != j.end() && types->is_array() && !types->empty()) {
    const auto first = types->front();
    FOVEA_CHECK_INPUT(std::all_of(types->begin(), types->end(), [&](const auto& type) { return type == first; }),
                      "config.json: \"layer_types\" differ; a window in some layers only is not supported");
    windowed = first == "sliding_attention";
  }
  FOVEA_CHECK_INPUT(!windowed || window > 0, "config.json: \"sliding_window\" is ", window, ", wanted at least 1");
  return windowed ? window : 0;
}

class LlamaRecipe : public ModelRecipe {
 public:
  explicit LlamaRecipe(const std::string& type) {
    config_.type = type;
    config_.attention_bias = type == "qwen2";
  }
  void visit(FieldVisitor& v) override {
    v.field("width", config_.width, "channels");
    v.field("layers", config_.layers, "blocks");
    v.field("heads", config_.heads, "attention heads");
    v.field("kv_heads", config_.kv_heads, "key/value heads; 0: as many as heads");
    v.field("head_width", config_.head_width, "channels of a head; 0: width / heads");
    v.field("hidden", config_.hidden, "width of the feed-forward; 0: 8/3 of width, in steps of 16");
    v.field("positions", config_.positions, "longest sequence");
    v.field("activation", config_.activation, "of the feed-forward's gate");
    v.field("rope_base", config_.rope_base, "ratio of the slowest rotation's wavelength to the fastest");
    if (config_.type != "llama") v.field("window", config_.window, "a token sees the newest of this many; 0: all");
    v.field("attention_dropout", config_.attention_dropout, "on attention weights");
    v.field("eps", config_.eps, "of the norms");
    v.field("tied", config_.tied, "output projection = embedding");
    v.field("initializer_range", config_.initializer_range, "deviation of initial weights");
  }
  nlohmann::json config(int64_t vocab_size) const override {
    LlamaConfig c = config_;
    c.vocab_size = vocab_size;
    if (c.hidden == 0) c.hidden = (c.width * 8 / 3 + 15) / 16 * 16;  // as many weights as 4 · width without a gate
    return Llama(c)->config();
  }

 private:
  LlamaConfig config_{.width = 128, .hidden = 0, .layers = 4, .heads = 4, .positions = 128, .tied = true};
};

}  // namespace

LlamaConfig LlamaConfig::defaults(const std::string& type) {
  if (type == "llama") return {.roles = {.bos = 1, .eos = {2}}};
  if (type == "mistral")
    return {.type = type,
            .hidden = 14336,
            .kv_heads = 8,
            .positions = 131072,
            .window = 4096,
            .roles = {.bos = 1, .eos = {2}}};
  FOVEA_CHECK_CONFIG(type == "qwen2", "unknown type \"", type, "\" of Llama's kin", suggestion(type, kLlamaTypes));
  return {.type = type,
          .vocab_size = 151936,
          .hidden = 22016,
          .kv_heads = 32,
          .positions = 32768,
          .window = 4096,
          .attention_bias = true};
}

LlamaImpl::LlamaImpl(LlamaConfig config) : config_(std::move(config)) {
  LlamaConfig& c = config_;
  const bool llama = c.type == "llama", qwen = LlamaConfig::defaults(c.type).attention_bias;
  FOVEA_CHECK_CONFIG(c.initializer_range >= 0, c.type, ": initializer_range is ", c.initializer_range,
                     ", wanted at least 0");
  FOVEA_CHECK_CONFIG(c.positions > 0, c.type, ": positions is ", c.positions, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(c.window >= 0, c.type, ": window is ", c.window, ", wanted at least 0");
  FOVEA_CHECK_CONFIG(!llama || c.window == 0, "llama: window is ", c.window, "; that is a mistral");
  FOVEA_CHECK_CONFIG(llama ? c.attention_bias == c.output_bias : c.attention_bias == qwen && !c.output_bias, c.type,
                     ": biases of query, key and value: ", c.attention_bias, ", of the output: ", c.output_bias,
                     "; wanted both or none in a llama, none in a mistral, the first in a qwen2");
  FOVEA_CHECK_CONFIG(llama || !c.feed_forward_bias, c.type, ": the feed-forward has no biases");
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  build(c.vocab_size, llama_stack(c), c.tied);
  c.head_width = decoder_->layers.front()->attention->options().head_width;
  initialize();
}

void LlamaImpl::initialize() { init::normal(*this, config_.initializer_range); }

LlamaConfig LlamaImpl::read_config(const nlohmann::json& j, const std::string& type) {
  FOVEA_CHECK_INPUT(!j.contains("quantization_config") || j["quantization_config"].is_null(),
                    "config.json: \"quantization_config\": quantized weights are not supported");
  LlamaConfig c = LlamaConfig::defaults(type);
  c.vocab_size = config_size(j, "vocab_size", c.vocab_size);
  c.width = config_size(j, "hidden_size", c.width);
  c.hidden = config_size(j, "intermediate_size", c.hidden);
  c.layers = config_size(j, "num_hidden_layers", c.layers);
  c.heads = config_size(j, "num_attention_heads", c.heads);
  const auto kv = j.find("num_key_value_heads");
  c.kv_heads = kv != j.end() && kv->is_null()
                   ? c.heads
                   : config_size(j, "num_key_value_heads", c.kv_heads > 0 ? c.kv_heads : c.heads);
  c.head_width = config_value(j, "head_dim", c.head_width);
  c.positions = config_size(j, "max_position_embeddings", c.positions);
  c.activation = config_value(j, "hidden_act", c.activation);
  c.eps = config_value(j, "rms_norm_eps", c.eps);
  read_rope(j, c.positions, c.rope_base, c.rope_scaling);
  if (c.type != "llama") c.window = llama_window(j, c);
  if (c.type == "llama") {
    c.attention_bias = c.output_bias = config_value(j, "attention_bias", false);
    c.feed_forward_bias = config_value(j, "mlp_bias", false);
  }
  c.attention_dropout = config_value(j, "attention_dropout", c.attention_dropout);
  c.initializer_range = config_value(j, "initializer_range", c.initializer_range);
  c.tied = config_value(j, "tie_word_embeddings", c.tied);
  c.roles = TokenRoles::read(j, c.roles);
  return c;
}

nlohmann::json LlamaImpl::config() const {
  const LlamaConfig& c = config_;
  nlohmann::json out{{"model_type", c.type},
                     {"architectures", {llama_architecture(c.type)}},
                     {"vocab_size", c.vocab_size},
                     {"hidden_size", c.width},
                     {"intermediate_size", c.hidden},
                     {"num_hidden_layers", c.layers},
                     {"num_attention_heads", c.heads},
                     {"num_key_value_heads", c.kv_heads},
                     {"head_dim", c.head_width},
                     {"max_position_embeddings", c.positions},
                     {"hidden_act", c.activation},
                     {"rms_norm_eps", c.eps},
                     {"attention_dropout", c.attention_dropout},
                     {"initializer_range", c.initializer_range},
                     {"tie_word_embeddings", c.tied}};
  write_rope(out, c.rope_base, c.rope_scaling);
  c.roles.write(out);
  if (c.type == "llama") {
    out["attention_bias"] = c.attention_bias;
    out["mlp_bias"] = c.feed_forward_bias;
  } else {
    out["sliding_window"] = c.window > 0 ? nlohmann::json(c.window) : nlohmann::json();
  }
  if (c.type == "qwen2") {
    out["use_sliding_window"] = c.window > 0;
    out["max_window_layers"] = c.window > 0 ? 0 : c.layers;
  }
  return out;
}

std::vector<TensorName> LlamaImpl::tensor_names() const {
  const LlamaConfig& c = config_;
  std::vector<TensorName> out{{.stored = "model.embed_tokens.weight", .ours = {"embedding.weight"}}};
  if (c.tied) {
    out.back().aliases = {"lm_head.weight"};
  } else {
    out.push_back({.stored = "lm_head.weight", .ours = {"head.weight"}});
  }
  const auto projection = [&](const std::string& stored, const std::string& ours, bool bias) {
    out.push_back({.stored = stored + ".weight", .ours = {ours + ".weight"}});
    if (bias) out.push_back({.stored = stored + ".bias", .ours = {ours + ".bias"}});
  };
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string h = "model.layers." + std::to_string(i), l = "decoder.layers." + std::to_string(i);
    projection(h + ".input_layernorm", l + ".attention_norm", false);
    projection(h + ".self_attn.q_proj", l + ".attention.query", c.attention_bias);
    projection(h + ".self_attn.k_proj", l + ".attention.key", c.attention_bias);
    projection(h + ".self_attn.v_proj", l + ".attention.value", c.attention_bias);
    projection(h + ".self_attn.o_proj", l + ".attention.output", c.output_bias);
    projection(h + ".post_attention_layernorm", l + ".feed_forward_norm", false);
    projection(h + ".mlp.gate_proj", l + ".feed_forward.gate", c.feed_forward_bias);
    projection(h + ".mlp.up_proj", l + ".feed_forward.up", c.feed_forward_bias);
    projection(h + ".mlp.down_proj", l + ".feed_forward.down", c.feed_forward_bias);
  }
  projection("model.norm", "decoder.final_norm", false);
  return out;
}

// Angles that older files carry as buffers.
std::vector<std::string> LlamaImpl::harmless_names() const { return {"*rotary_emb.inv_freq"}; }

void register_models_llama(ModelsRegistry& registry) {
  for (const std::string& type : kLlamaTypes)
    registry.add(type, {.from_config = [type](const nlohmann::json& config) -> Model {
                          return std::make_shared<LlamaImpl>(LlamaImpl::read_config(config, type));
                        },
                        .architectures = {llama_architecture(type)},
                        .recipe = [type] { return std::make_unique<LlamaRecipe>(type); }});
}

}  // namespace fovea
