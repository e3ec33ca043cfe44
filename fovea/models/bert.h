// BERT (Devlin et al. 2019): a post-norm encoder with learned positions and segments, and its heads. RoBERTa (Liu et
// al. 2019; also XLM-RoBERTa and CamemBERT) and DistilBERT (Sanh et al. 2019) are the same encoder with other names in
// their folders. Reads and writes Hugging Face's folders of them. "linformer" (Wang et al. 2020) is BERT with
// attention/variants/linformer.h in place of softmax attention; its folder is our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/blocks/stack.h"
#include "fovea/heads/classifier.h"
#include "fovea/heads/masked_lm.h"
#include "fovea/heads/pooler.h"
#include "fovea/layers/embedding.h"
#include "fovea/models/model.h"

namespace fovea {

struct BertConfig {
  // whose folder: "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "linformer"
  std::string type = "bert";
  // "none", "masked_lm", "pretraining" (masked words and next sentence), "next_sentence", "classifier",
  // "token_classifier", "question_answering"
  std::string head = "masked_lm";
  int64_t vocab_size = 30522;
  int64_t positions = 512;  // longest sequence
  int64_t segments = 2;     // token types; 0: none
  int64_t width = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t hidden = 0;  // 0: 4 · width
  std::string activation = "gelu";
  double dropout = 0.1;  // on embeddings and what each part adds
  double attention_dropout = 0.1;
  std::optional<double> head_dropout;  // before a classifier; unset: as `dropout`, and none before answers
  double eps = 1e-12;
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;
  bool attention_bias = true;       // of the query, key and value projections
  bool scaled_embedding = false;    // words' vectors times √width
  bool tied = true;                 // the masked words' output projection is the embedding
  bool pooler = true;               // head "none": with the pooler that pre-training leaves
  int64_t projected = 0;            // linformer: rows that a sequence is projected to
  std::string sharing = "heads";    // linformer: as in VariantOptions
  std::vector<std::string> labels;  // a classifier's classes
  std::string problem;              // as in ClassifierOptions
};

// bool [B, T], true for real tokens; undefined where all are.
Tensor bert_real_tokens(const Batch& batch);

class BertImpl : public EncoderModelImpl {
 public:
  // Error(kConfig) when sizes, type and head do not fit each other.
  explicit BertImpl(BertConfig config);
  // `type`: the family where config.json names none.
  static BertConfig read_config(const nlohmann::json& json, const std::string& type = "bert");

  // A model without a table of segments reads pairs all the same.
  int64_t segments() const override { return config_.segments > 0 ? config_.segments : 2; }
  // What EncoderModelImpl::head() promises; the next sentence as a classifier's [B, 2].
  Tensor forward(const Batch& batch) const override;
  Tensor encode(const Batch& batch) const override;
  // [B, C]: the first token through the pooler; Error(kArgument) for a model without one.
  Tensor pooled(const Batch& batch) const;
  bool has_pooler() const { return !pooler_.is_empty(); }

  // Masked words and classes: cross entropy over labels that count (or as `problem` says). Answers: the mean of start
  // and end, over real tokens only. Pre-training: the mean of the next sentence's loss is added to that of the words.
  LossSum loss(const Batch& batch, double label_smoothing = 0) override;

  std::string type() const override { return config_.type; }
  std::string head() const override;
  std::vector<std::string> labels() const override { return config_.labels; }
  Tensor scores(const Tensor& logits) const override;
  EncoderModel with_head(const std::string& head, const std::vector<std::string>& labels) const override;
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override;
  std::vector<std::string> harmless_names() const override;
  std::string outer_prefix() const override;
  void leave_out(const std::vector<std::string>& stored) override;
  void initialize() override;
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.positions; }

 protected:
  // A relative, whose encoder differs: LongformerImpl, BigBirdImpl.
  BertImpl(BertConfig config, StackOptions encoder);
  static StackOptions encoder_options(const BertConfig& config);
  // One like this with another configuration and fresh weights.
  virtual std::shared_ptr<BertImpl> relative(BertConfig config) const { return std::make_shared<BertImpl>(config); }
  StackInput stack_input(const Batch& batch) const;
  Tensor embed(const Batch& batch) const;  // [B, T, C], before positions
  // Hidden states [B, T, C] -> logits of rows or of tokens.
  virtual Tensor classify(const Tensor& hidden, const Batch& batch) const;

  BertConfig config_;
  Embedding embedding_, segments_;
  Stack encoder_;
  // Those that the head needs.
  Pooler pooler_;
  MaskedLMHead words_;
  Classifier classifier_;

 private:
  Tensor pool(const Tensor& hidden, const Batch& batch) const;  // [B, C]
  CrossEntropySum word_loss(const Tensor& hidden, const Tensor& labels, double label_smoothing) const;
  CrossEntropySum answer_loss(const Tensor& hidden, const Batch& batch) const;
};
TORCH_MODULE(Bert);

}  // namespace fovea
