// A small residual network (He et al. 2016, sections 3.3 and 4.2) for seeing what channel attention is good for: one
// stands at the end of each block's branch, where Hu et al. 2018 (figure 3) put theirs.
//
//   x -> 3 x 3 convolution, norm, ReLU -> stages of blocks -> mean over places -> classes
//   block:   relu(skip(x) + attend(norm(conv(relu(norm(conv(x)))))))
//
// Each stage after the first halves the places and doubles the channels; there `skip` is a 1 x 1 convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "fovea/channel/channel_attention.h"
#include "fovea/heads/classifier.h"
#include "fovea/models/model.h"

namespace fovea {

struct ResidualCnnConfig {
  std::vector<int64_t> image_size{28};  // pixels: Y and X, or one number for both; multiples of 2^(stages − 1)
  int64_t channels = 1;                 // of the images
  int64_t width = 16;                   // channels of the first stage
  int64_t stages = 3;
  int64_t blocks = 1;                      // of each stage
  std::string channel_attention = "none";  // or a registered name: "squeeze_excitation", "eca", "cbam", "coordinate"
  ChannelOptions attention{.reduction = 4};
  std::vector<std::string> labels;  // of the classifier; empty: there is none
  void visit(FieldVisitor& visitor);
};

class ResidualCnnImpl : public EncoderModelImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit ResidualCnnImpl(ResidualCnnConfig config);
  static ResidualCnnConfig read_config(const nlohmann::json& json);

  // batch.images [B, channels, Y, X] -> the last stage's places, row by row: [B, Y' · X', C].
  Tensor encode(const Batch& batch) const override;
  // With labels: logits [B, N]; without: encode().
  Tensor forward(const Batch& batch) const override;
  std::optional<int64_t> multiply_adds() const override;

  std::string type() const override { return "residual_cnn"; }
  std::string head() const override { return classifier_.is_empty() ? "none" : "classifier"; }
  std::vector<std::string> labels() const override { return config_.labels; }
  EncoderModel with_head(const std::string& head, const std::vector<std::string>& labels) const override;
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override { return own_names(*this); }
  // Convolutions as in He et al. 2015 (equation 14); the attention's weights are those of its own construction.
  void initialize() override;
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  int64_t vocab_size() const override { return 0; }  // pixels are no tokens
  int64_t max_positions() const override;            // places of the last stage

 private:
  struct NormedConvolution;
  struct Block;
  Tensor maps(const Batch& batch) const;  // [B, C, Y', X']
  // Of the last stage, on each axis.
  int64_t pixels_of_place() const { return int64_t{1} << (config_.stages - 1); }

  ResidualCnnConfig config_;
  std::array<int64_t, 2> image_;  // Y, X
  std::shared_ptr<NormedConvolution> stem_;
  std::vector<std::shared_ptr<Block>> blocks_;
  Classifier classifier_;  // where there are labels
};
TORCH_MODULE(ResidualCnn);

}  // namespace fovea
