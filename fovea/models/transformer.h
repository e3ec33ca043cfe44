// The original encoder-decoder Transformer (Vaswani et al. 2017): sinusoidal positions, embeddings scaled by √C,
// post-norm by default. Its folder has our own config.json ("model_type": "transformer") and tensor names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/encoder_decoder.h"

namespace fovea {

struct TransformerConfig {
  int64_t vocab_size = 0;         // V of the target, and of the source unless given
  int64_t source_vocab_size = 0;  // 0: one vocabulary
  int64_t width = 512;
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
  int64_t heads = 8;
  int64_t hidden = 2048;
  int64_t positions = 1024;  // longest sequence
  std::string activation = "relu";
  double dropout = 0.1;           // on embeddings and what each part adds
  double attention_dropout = 0;   // on attention weights
  bool pre_norm = false;          // pre-norm adds a final norm to both stacks
  bool shared_embeddings = true;  // source = target table; needs one vocabulary
  bool tied = true;               // output projection = target table
  double eps = 1e-5;
  int64_t bos_token_id = -1;  // what the decoder starts from; −1: unset
  int64_t eos_token_id = -1;
  int64_t pad_token_id = -1;

  void visit(FieldVisitor& visitor);
};

class TransformerImpl : public EncoderDecoderImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit TransformerImpl(TransformerConfig config);

  std::string type() const override { return "transformer"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  void initialize() override;
  int64_t max_positions() const override { return config_.positions; }

 private:
  int64_t start_id() const override { return config_.bos_token_id; }
  int64_t pad_id() const override { return config_.pad_token_id; }

  TransformerConfig config_;
};
TORCH_MODULE(Transformer);

}  // namespace fovea
