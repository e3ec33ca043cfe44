// Llama (Touvron et al. 2023) and its kin, Mistral (Jiang et al. 2023) and Qwen2 (2024): pre-norm decoders with
// RMSNorm, rotary positions, grouped heads and a gated feed-forward. Reads and writes Hugging Face's LlamaForCausalLM,
// MistralForCausalLM and Qwen2ForCausalLM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/decoder_only.h"
#include "fovea/models/token_roles.h"

namespace fovea {

// The families differ in what their config.json can say: "llama" has biases for all projections or for none, "mistral"
// a window, "qwen2" biases of query, key and value, and a window.
struct LlamaConfig {
  std::string type = "llama";
  int64_t vocab_size = 32000;
  int64_t width = 4096;
  int64_t hidden = 11008;
  int64_t layers = 32;
  int64_t heads = 32;
  int64_t kv_heads = 0;    // 0: as many as heads
  int64_t head_width = 0;  // 0: width / heads
  int64_t positions = 2048;
  std::string activation = "silu";  // of the gate
  double eps = 1e-6;
  double rope_base = 10000;
  RopeScaling rope_scaling;
  int64_t window = 0;           // a token sees the newest `window`; 0: all
  bool attention_bias = false;  // of query, key and value
  bool output_bias = false;     // of the attention's output
  bool feed_forward_bias = false;
  double attention_dropout = 0;
  double initializer_range = 0.02;
  bool tied = false;  // the output projection is the embedding
  TokenRoles roles;

  // What Hugging Face takes where config.json is silent. Error(kConfig) for another type.
  static LlamaConfig defaults(const std::string& type);
};

class LlamaImpl : public DecoderOnlyImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other, or the type's config.json cannot say it.
  explicit LlamaImpl(LlamaConfig config);
  static LlamaConfig read_config(const nlohmann::json& json, const std::string& type);

  std::string type() const override { return config_.type; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override { return "model."; }
  void initialize() override;

 private:
  LlamaConfig config_;
};
TORCH_MODULE(Llama);

}  // namespace fovea
