// GPT-2 (Radford et al. 2019): a pre-norm decoder with learned positions; reads and writes Hugging Face's
// GPT2LMHeadModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/decoder_only.h"

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

class Gpt2Impl : public DecoderOnlyImpl {
 public:
  explicit Gpt2Impl(Gpt2Config config);
  static Gpt2Config read_config(const nlohmann::json& json);

  std::string type() const override { return "gpt2"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override { return "transformer."; }
  void initialize() override;

 private:
  Gpt2Config config_;
};
TORCH_MODULE(Gpt2);

}  // namespace fovea
