// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bert.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/base/size.h"
#include "fovea/layers/init.h"
#include "fovea/masks/document.h"
#include "fovea/models/bert_folder.h"
#include "fovea/models/bert_recipe.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

bool bert_pools(const BertConfig& c) {
  return c.head == "classifier" || c.head == "next_sentence" || c.head == "pretraining";
}

}  // namespace

Tensor bert_real_tokens(const Batch& batch) {
  if (!batch.lengths.defined() && !batch.start.defined()) return {};
  const Tensor slot = at::arange(batch.ids.size(1), batch.ids.options());
  const Tensor start = batch.start.defined() ? batch.start.unsqueeze(1) : at::zeros({1, 1}, batch.ids.options());
  Tensor real = slot >= start;
  if (batch.lengths.defined()) real = real.logical_and(slot < start + batch.lengths.unsqueeze(1));
  return real;
}

StackOptions BertImpl::encoder_options(const BertConfig& c) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width,
                                  .heads = c.heads,
                                  .bias = c.attention_bias,
                                  .output_bias = true,
                                  .dropout = c.attention_dropout,
                                  .variant = bert_projects(c.type) ? "linformer" : "softmax",
                                  .variants = {.projected = c.projected, .sharing = c.sharing}},
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .eps = c.eps,
                    .pre_norm = false,
                    .dropout = c.dropout},
          .position = "learned",
          .positions = {.max_positions = c.positions, .offset = bert_position_offset(c)},
          .embed_norm = true,
          .embed_dropout = c.dropout};
}

BertImpl::BertImpl(BertConfig config) : BertImpl(config, encoder_options(config)) {}

BertImpl::BertImpl(BertConfig config, StackOptions encoder) : config_(std::move(config)) {
  BertConfig& c = config_;
  check_bert_config(c);
  if (c.hidden == 0) c.hidden = times(4, c.width);
  activation(c.activation);  // a feed-forward knows gated names too, which have
                             // no tensors in these folders
  embedding_ = register_module("embedding",
                               Embedding({.vocabulary = c.vocab_size, .width = c.width, .scale = c.scaled_embedding}));
  if (c.segments > 0) segments_ = register_module("segments", Embedding({.vocabulary = c.segments, .width = c.width}));
  encoder_ = register_module("encoder", Stack(std::move(encoder)));

  const double before_head = c.head_dropout.value_or(c.dropout);
  if (bert_pools(c) || (c.head == "none" && c.pooler))
    pooler_ = register_module("pooler", Pooler(bert_pooler(c, before_head)));
  if (c.head == "masked_lm" || c.head == "pretraining")
    words_ = register_module("words", MaskedLMHead({.vocabulary = c.vocab_size,
                                                    .width = c.width,
                                                    .activation = bert_words_activation(c),
                                                    .eps = c.eps,
                                                    .tied = c.tied}));
  if (!c.labels.empty())
    classifier_ = register_module(
        "classifier", Classifier({.width = c.width,
                                  .classes = int64_t(c.labels.size()),
                                  .dropout = c.head == "classifier" || c.head == "token_classifier" ? before_head : 0,
                                  .problem = c.head == "classifier" ? c.problem : "single_label_classification"}));
  if (c.head == "question_answering")
    classifier_ = register_module("classifier",
                                  Classifier({.width = c.width, .classes = 2, .dropout = c.head_dropout.value_or(0)}));
  initialize();
}

void BertImpl::initialize() { init::normal(*this, config_.initializer_range); }

std::string BertImpl::head() const {
  if (config_.head == "pretraining") return "masked_lm";
  return config_.head == "next_sentence" ? "classifier" : config_.head;
}

Tensor BertImpl::embed(const Batch& batch) const {
  FOVEA_CHECK(batch.ids.defined() && batch.ids.dim() == 2, config_.type, ": the batch has no ids [B, T]");
  const Tensor x = embedding_->forward(batch.ids);  // [B, T, C]
  if (segments_.is_empty()) return x;
  if (!batch.type_ids.defined()) return x + segments_->weight[0];
  const Tensor& types = batch.type_ids;
  const bool inside = types.numel() == 0 || types.max().item<int64_t>() < config_.segments;
  FOVEA_CHECK(types.sizes() == batch.ids.sizes() && inside, config_.type, ": type_ids are ", types.sizes(), " up to ",
              types.numel() > 0 ? types.max().item<int64_t>() : 0, ", wanted ", batch.ids.sizes(), " of 0 … ",
              config_.segments - 1);
  return x + segments_->forward(types);
}

StackInput BertImpl::stack_input(const Batch& batch) const {
  StackInput in{.start = batch.start, .lengths = batch.lengths};
  if (batch.documents.defined()) in.mask = masks::document(batch.documents);
  if (batch.positions.defined()) in.positions = batch.positions;
  return in;
}

Tensor BertImpl::encode(const Batch& batch) const {
  return encoder_->forward(embed(batch), stack_input(batch));  // [B, T, C]
}

// A row without tokens has the vector of its padding. Where no row has a slot, there is none: then it gets one.
Tensor BertImpl::pool(const Tensor& hidden, const Batch& batch) const {
  if (hidden.size(1) > 0) return pooler_->forward(hidden, batch.start);  // [B, C]
  const int64_t B = hidden.size(0), pad = std::clamp<int64_t>(config_.pad_token_id, 0, config_.vocab_size - 1);
  const auto like = batch.ids.options();
  return pooler_->forward(encode({.ids = at::full({B, 1}, pad, like), .lengths = at::zeros({B}, like)}));
}

Tensor BertImpl::classify(const Tensor& hidden, const Batch& batch) const {
  return classifier_->forward(bert_pools(config_) ? pool(hidden, batch) : hidden);
}

Tensor BertImpl::pooled(const Batch& batch) const {
  FOVEA_CHECK(has_pooler(), "this ", config_.type, " model has no pooler");
  return pool(encode(batch), batch);
}

Tensor BertImpl::forward(const Batch& batch) const {
  const Tensor hidden = encode(batch);  // [B, T, C]
  if (!words_.is_empty()) return words_->forward(hidden, embedding_->weight);
  return classifier_.is_empty() ? hidden : classify(hidden, batch);
}

EncoderModel BertImpl::with_head(const std::string& head, const std::vector<std::string>& labels) const {
  BertConfig c = config_;
  c.head = head;
  c.labels = labels;
  c.problem.clear();
  c.head_dropout.reset();
  auto out = relative(c);
  out->take_encoder(*this);
  return out;
}

Tensor BertImpl::scores(const Tensor& logits) const {
  return classifier_.is_empty() ? EncoderModelImpl::scores(logits) : classifier_->scores(logits);
}

// Only what is asked for goes through the vocabulary, which is wider than everything before it.
CrossEntropySum BertImpl::word_loss(const Tensor& hidden, const Tensor& labels, double label_smoothing) const {
  FOVEA_CHECK(labels.sizes() == hidden.sizes().slice(0, 2), "labels are ", labels.sizes(), ", wanted ",
              hidden.sizes().slice(0, 2));
  const Tensor counted = labels.ne(kIgnore).flatten().nonzero().squeeze(1);  // [n]
  const Tensor rows = hidden.flatten(0, 1).index_select(0, counted);         // [n, C]
  const Tensor logits = words_->forward(rows, embedding_->weight);           // [n, V]
  return cross_entropy_sum(logits, labels.flatten().index_select(0, counted), label_smoothing);
}

CrossEntropySum BertImpl::answer_loss(const Tensor& hidden, const Batch& batch) const {
  Tensor logits = classify(hidden, batch).transpose(1, 2);  // [B, 2, T]
  if (const Tensor real = bert_real_tokens(batch); real.defined())
    logits = logits.masked_fill(real.logical_not().unsqueeze(1), -std::numeric_limits<double>::infinity());
  return cross_entropy_sum(logits, batch.labels);
}

LossSum BertImpl::loss(const Batch& batch, double label_smoothing) {
  FOVEA_CHECK(config_.head != "none", "a ", config_.type, " model without a head has nothing to learn from labels");
  FOVEA_CHECK(batch.labels.defined(), "the batch has no labels");
  const bool answers = config_.head == "question_answering";
  FOVEA_CHECK(!answers || label_smoothing == 0, "label smoothing does not go with answers");
  const Tensor hidden = encode(batch);
  if (answers) {
    const auto out = answer_loss(hidden, batch);
    return {out.sum, out.count};
  }
  if (words_.is_empty()) {
    const auto out = classifier_->loss(classify(hidden, batch), batch.labels, label_smoothing);
    return {out.sum, out.count};
  }
  const auto words = word_loss(hidden, batch.labels, label_smoothing);
  if (classifier_.is_empty() || !batch.next_sentence.defined()) return {words.sum, words.count};
  // A sum of two means has no common count: the second is given the weight of the first.
  const auto next = classifier_->loss(classify(hidden, batch), batch.next_sentence, label_smoothing);
  return {words.sum + next.sum * (double(words.count) / double(std::max<int64_t>(next.count, 1))), words.count};
}

void BertImpl::leave_out(const std::vector<std::string>&) {
  unregister_module("pooler");  // the only optional part
  pooler_ = Pooler();
  config_.pooler = false;
}

BertConfig BertImpl::read_config(const nlohmann::json& json, const std::string& type) {
  return read_bert_config(json, type);
}
nlohmann::json BertImpl::config() const { return write_bert_config(config_); }
std::vector<TensorName> BertImpl::tensor_names() const { return bert_tensor_names(config_); }
std::vector<std::string> BertImpl::harmless_names() const { return bert_harmless_names(config_); }
std::string BertImpl::outer_prefix() const { return bert_outer_prefix(config_); }

void register_models_bert(ModelsRegistry& registry) {
  for (const std::string& type : bert_types())
    registry.add(type, {.from_config = [type](const nlohmann::json& config) -> Model {
                          return std::make_shared<BertImpl>(BertImpl::read_config(config, type));
                        },
                        .architectures = bert_architectures(type),
                        .recipe = [type] { return std::make_unique<BertRecipe>(type); }});
}

}  // namespace fovea
