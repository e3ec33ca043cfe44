// GPT-2 (Radford et al. 2019): a pre-norm decoder with learned positions; reads and writes Hugging Face's GPT2LMHeadModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/blocks/stack.h"
#include "fovea/layers/embedding.h"
#include "fovea/models/model.h"

namespace fovea {

struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t positions = 1024;
  int64_t width = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t hidden = 0;  // 0: 4 · width
  std::string activation = "gelu_new";
  double residual_dropout = 0.1;
  double embedding_dropout = 0.1;
  double attention_dropout = 0.1;
  double eps = 1e-5;
  double initializer_range = 0.02;
  bool tied = true;  // the output projection is the embedding
};

class Gpt2Impl : public GenerativeModelImpl {
 public:
  explicit Gpt2Impl(Gpt2Config config);
  static Gpt2Config read_config(const nlohmann::json& json);

  // ids [B, T] -> logits [B, T, V]. Rows padded on the right: lengths [B]; packed texts: documents [B, T] and positions
  // [B, T], as in Batch.
  Tensor forward(const Batch& batch) const override;

  std::string type() const override { return "gpt2"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override { return "transformer."; }
  void initialize() override;
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.positions; }

  bool has_encoder() const override { return false; }
  DecoderState begin(const Tensor& source = {}, const Tensor& source_lengths = {}) const override;
  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override;

 private:
  Tensor logits(const Tensor& hidden) const;  // [B, T, C] -> [B, T, V]

  Gpt2Config config_;
  Embedding embedding_;
  Stack decoder_;
  torch::nn::Linear head_{nullptr};  // only where not tied
};
TORCH_MODULE(Gpt2);

}  // namespace fovea
