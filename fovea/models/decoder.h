// A decoder whose parts are chosen by name: position encoding, attention variant, norm, activation. For models that no
// other file describes: linear attention, learned ALiBi slopes, no positions at all … Its folder is our own; other
// programs do not know it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/models/decoder_only.h"

namespace fovea {

struct DecoderConfig {
  int64_t vocab_size = 0;
  int64_t width = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t hidden = 0;    // 0: 4 · width
  std::string activation = "gelu";
  std::string norm = "layer";
  double eps = 1e-5;
  std::string position = "sinusoidal";
  PositionOptions positions;          // max_positions is the longest sequence; 0: no limit
  std::string attention = "softmax";  // the variant
  double dropout = 0;                 // on embeddings and what each part adds
  double attention_dropout = 0;       // on attention weights
  bool scale_embedding = false;       // times √width on the way in
  bool tied = true;                   // the output projection is the embedding
  double initializer_range = 0.02;
  void visit(FieldVisitor& visitor);  // all but vocab_size
};

class DecoderImpl : public DecoderOnlyImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit DecoderImpl(DecoderConfig config);
  static DecoderConfig read_config(const nlohmann::json& json);

  std::string type() const override { return "decoder"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  void initialize() override;

 private:
  DecoderConfig config_;
};
TORCH_MODULE(Decoder);

}  // namespace fovea
