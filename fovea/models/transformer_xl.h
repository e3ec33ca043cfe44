// Transformer-XL (Dai et al. 2019): a decoder that reads a long text in segments. Each layer sees, before its own
// states, the newest `memory` states that the segments before left there (section 3.2):
//
//   h̃ = [stop_gradient(m); h],  q = W_q h,  k, v = W_k h̃, W_v h̃,  m ← the newest of h̃
//
// with relative positions (section 3.3), projections of them and biases for each layer, and the norm after the sum.
// Where fewer states stand before, a layer sees those: `memory` may be longer than any text. The softmax over words is
// the plain one, not the paper's adaptive one, which wide vocabularies want.
//
// loss() carries memory from batch to batch where Batch::continues says so. forward() is one segment that begins a
// text. In generation the cache is the memory: a step sees the newest `memory` tokens before it, a prompt itself whole.
// Its folder is our own; the library that once read the authors' has dropped the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "fovea/models/decoder_only.h"

namespace fovea {

struct TransformerXlConfig {
  int64_t vocab_size = 0;
  int64_t width = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t hidden = 0;    // 0: 4 · width
  int64_t memory = 128;  // states of earlier segments that a layer sees; 0: none
  int64_t reach = 0;     // distances from here on share a vector (the authors' clamp_len); 0: each has its own
  std::string activation = "relu";
  bool pre_norm = false;
  double eps = 1e-5;
  double dropout = 0;            // on embeddings, what each part adds, and the output
  double attention_dropout = 0;  // on attention weights
  bool tied = true;              // the output projection is the embedding
  double initializer_range = 0.02;
  void visit(FieldVisitor& visitor);  // all but vocab_size
};

class TransformerXlImpl : public DecoderOnlyImpl {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit TransformerXlImpl(TransformerXlConfig config);
  static TransformerXlConfig read_config(const nlohmann::json& json);

  // Error(kArgument) for packed texts, and for a batch that goes on with other rows than the one before had.
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;
  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override;

  bool keeps_memory() const override { return config_.memory > 0; }
  std::vector<Tensor> memory() const override { return memories_[1].layers; }
  void set_memory(const std::vector<Tensor>& memory) override { memories_[1].layers = memory; }

  std::string type() const override { return "transformer_xl"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  void initialize() override;

 private:
  TransformerXlConfig config_;
  std::array<SegmentMemory, 2> memories_;  // in evaluation, in training
};
TORCH_MODULE(TransformerXl);

}  // namespace fovea
