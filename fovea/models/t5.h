// T5 (Raffel et al. 2020; version 1.1: Shazeer 2020): an encoder-decoder with RMSNorm, unscaled scores, no biases but a
// learned one per distance that all layers of a stack share. Reads and writes Hugging Face's
// T5ForConditionalGeneration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/encoder_decoder.h"
#include "fovea/models/token_roles.h"

namespace fovea {

struct T5Config {
  int64_t vocab_size = 32128;
  int64_t width = 512;
  int64_t head_width = 64;  // of keys and values; need not be width / heads
  int64_t hidden = 2048;
  int64_t layers = 6;  // of the encoder
  int64_t decoder_layers = 6;
  int64_t heads = 8;
  int64_t buckets = 32;
  int64_t max_distance = 128;
  std::string activation = "relu";
  bool gated = false;  // version 1.1: true, with activation "gelu_new"
  double dropout = 0.1;
  double eps = 1e-6;
  double initializer_factor = 1;
  bool tied = true;                        // the output projection is the embedding
  bool scale_logits = true;                // by 1/√width; version 1.1: false, and not tied
  TokenRoles roles{.eos = {1}, .pad = 0};  // targets begin with padding where decoder_start says nothing else
};

class T5Impl : public EncoderDecoderImpl {
 public:
  explicit T5Impl(T5Config config);
  static T5Config read_config(const nlohmann::json& json);

  std::string type() const override { return "t5"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  void leave_out(const std::vector<std::string>& absent) override;
  void initialize() override;
  int64_t max_positions() const override { return PositionImpl::kNoLimit; }

 private:
  Tensor scaled(const Tensor& hidden) const override;
  int64_t start_id() const override { return config_.roles.decoder_start; }
  int64_t pad_id() const override { return config_.roles.pad; }

  T5Config config_;
};
TORCH_MODULE(T5);

}  // namespace fovea
