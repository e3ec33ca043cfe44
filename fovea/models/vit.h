// The Vision Transformer (Dosovitskiy et al. 2021): patches, a class token, a pre-norm encoder; reads and writes
// Hugging Face's ViTModel (features) and ViTForImageClassification.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/blocks/stack.h"
#include "fovea/heads/classifier.h"
#include "fovea/heads/pooler.h"
#include "fovea/layers/patch_embedding.h"
#include "fovea/models/model.h"

namespace fovea {

struct VitConfig {
  std::vector<int64_t> image_size{224};  // pixels: Y and X, or one number for both
  std::vector<int64_t> patch_size{16};   // likewise
  int64_t channels = 3;
  int64_t width = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t head_width = 0;  // 0: width / heads
  int64_t hidden = 0;      // 0: 4 · width
  std::string activation = "gelu";
  double dropout = 0;  // on embeddings and what each part adds
  double attention_dropout = 0;
  bool qkv_bias = true;
  double eps = 1e-12;
  double initializer_range = 0.02;
  bool any_image_size = false;  // positions are resized to an image of another size, else it is an error
  // "learned" as in the paper; "sinusoidal_2d", "rope_2d", "none": as positions/grid_2d.h has them, which other
  // programs do not know.
  std::string position = "learned";
  std::string head = "none";        // or "classifier"
  std::vector<std::string> labels;  // of the classifier
  std::string problem;              // of the classifier, as in heads/classifier.h
  bool pooler = true;               // head "none" only; a file may lack it
  int64_t pooler_width = 0;         // 0: width
  std::string pooler_activation = "tanh";
};

class VitImpl : public EncoderModelImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit VitImpl(VitConfig config);
  static VitConfig read_config(const nlohmann::json& json);

  // batch.images [B, channels, Y, X] -> [B, 1 + N, C] after the last norm; the class token stands first.
  Tensor encode(const Batch& batch) const override;
  // "none": the hidden states [B, 1 + N, C]; "classifier": logits [B, N labels] of the class token.
  Tensor forward(const Batch& batch) const override;
  // The class token's hidden state through the pooler: [B, pooler_width].
  Tensor pooled(const Batch& batch) const;
  bool has_pooler() const { return !pooler_.is_empty(); }

  std::string type() const override { return "vit"; }
  std::string head() const override { return config_.head; }
  Tensor scores(const Tensor& logits) const override;
  std::vector<std::string> labels() const override { return config_.labels; }
  EncoderModel with_head(const std::string& head, const std::vector<std::string>& labels) const override;
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override { return "vit."; }
  void leave_out(const std::vector<std::string>& stored) override;
  void initialize() override;
  // Of a classifier: batch.labels [B], or as heads/classifier.h says.
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  int64_t vocab_size() const override { return 0; }  // pixels are no tokens
  int64_t max_positions() const override;            // the class token and the patches of an image

 private:
  VitConfig config_;
  PatchEmbedding embedding_;
  Stack encoder_;
  Pooler pooler_;          // head "none" with a pooler
  Classifier classifier_;  // head "classifier"
};
TORCH_MODULE(Vit);

}  // namespace fovea
