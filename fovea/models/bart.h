// BART (Lewis et al. 2020): the original Transformer with learned positions, a norm on the embeddings and GELU, trained
// to restore texts; summarising is generation with it. Reads and writes Hugging Face's BartForConditionalGeneration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/encoder_decoder.h"
#include "fovea/models/token_roles.h"

namespace fovea {

struct BartConfig {
  int64_t vocab_size = 50265;
  int64_t positions = 1024;
  int64_t width = 1024;
  int64_t encoder_layers = 12, decoder_layers = 12;
  int64_t encoder_heads = 16, decoder_heads = 16;
  int64_t encoder_hidden = 4096, decoder_hidden = 4096;
  std::string activation = "gelu";
  double dropout = 0.1;           // on embeddings and what each part adds
  double attention_dropout = 0;   // on attention weights
  double activation_dropout = 0;  // on the feed-forward's hidden layer
  double init_std = 0.02;
  bool scale_embedding = false;  // by √width
  bool tied = true;              // one table: source's and target's embedding and the output projection
  TokenRoles roles{.bos = 0, .eos = {2}, .pad = 1, .decoder_start = 2};
  // What a target is made to begin with, and to end with where it grows to its limit; −1: nothing.
  int64_t forced_bos = -1, forced_eos = 2;
};

class BartImpl : public EncoderDecoderImpl {
 public:
  explicit BartImpl(BartConfig config);
  static BartConfig read_config(const nlohmann::json& json);

  std::string type() const override { return "bart"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override { return "model."; }
  void initialize() override;
  int64_t max_positions() const override { return config_.positions; }

 private:
  Tensor logits_bias() const override;
  int64_t start_id() const override { return config_.roles.decoder_start; }
  int64_t pad_id() const override { return config_.roles.pad; }

  BartConfig config_;
  Tensor logits_bias_;  // [1, V], added to the logits; not learned
};
TORCH_MODULE(Bart);

}  // namespace fovea
