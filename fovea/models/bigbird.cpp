// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bigbird.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/layers/dropout.h"
#include "fovea/layers/linear.h"
#include "fovea/models/bert_folder.h"
#include "fovea/models/bert_recipe.h"
#include "fovea/models/config_json.h"
#include "fovea/models/random_blocks.h"
#include "fovea/models/registry.h"
#include "fovea/scores/block_repeats.h"

namespace fovea {
namespace {

constexpr int64_t kRandomBlocks = 1 << 20;  // fewer than this

BertConfig bigbird_bert(BertConfig c) {
  c.type = "big_bird";
  return c;
}

StackOptions bigbird_stack(StackOptions options) {
  options.embed_dropout_first = true;
  return options;
}

bool bigbird_keeps_pooler(const std::string& head) {
  return head == "masked_lm" || head == "classifier" || head == "token_classifier";
}

int64_t blocks_of(int64_t tokens, int64_t size) { return tokens / size + (tokens % size != 0); }

// Tokens of each row's text.
std::vector<int64_t> text_lengths(const Batch& batch) {
  std::vector<int64_t> out(size_t(batch.ids.size(0)), batch.ids.size(1));
  for (size_t b = 0; b < out.size(); ++b) {
    if (batch.start.defined()) out[b] -= batch.start[int64_t(b)].item<int64_t>();
    if (batch.lengths.defined()) out[b] = batch.lengths[int64_t(b)].item<int64_t>();
  }
  return out;
}

class BigBirdRecipe : public BertRecipe {
 public:
  BigBirdRecipe() : BertRecipe("big_bird") {}
  void visit(FieldVisitor& v) override {
    BertRecipe::visit(v);
    v.field("block_size", block_size_, "tokens of a block");
    v.field("random_blocks", random_blocks_, "blocks that a block sees at random");
  }

 protected:
  nlohmann::json written(const BertConfig& c) const override {
    return BigBird(BigBirdConfig{.bert = c, .block_size = block_size_, .random_blocks = random_blocks_})->config();
  }

 private:
  int64_t block_size_ = 16, random_blocks_ = 1;
};

}  // namespace

BigBirdImpl::BigBirdImpl(BigBirdConfig config)
    : BertImpl(bigbird_bert(config.bert), bigbird_stack(encoder_options(bigbird_bert(config.bert)))),
      options_(std::move(config)) {
  options_.bert = {};
  FOVEA_CHECK_CONFIG(options_.block_size > 0, "big_bird: block_size is ", options_.block_size, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.random_blocks >= 0 && options_.random_blocks < kRandomBlocks,
                     "big_bird: num_random_blocks is ", options_.random_blocks, ", wanted 0 … ", kRandomBlocks - 1);
  const BertConfig& c = config_;
  if (c.head == "question_answering") {
    answer_feed_forward_ = register_module(
        "answer_feed_forward", FeedForward({.width = c.width, .hidden = c.hidden, .activation = c.activation}));
    answer_norm_ = register_module("answer_norm", Norm({.width = c.width, .eps = c.eps}));
  }
  if (c.pooler && bigbird_keeps_pooler(c.head))
    unused_pooler_ = register_module("unused_pooler", make_linear(c.width, c.width));
  initialize();
}

std::shared_ptr<BertImpl> BigBirdImpl::relative(BertConfig config) const {
  BigBirdConfig c = options_;
  c.bert = std::move(config);
  return std::make_shared<BigBirdImpl>(std::move(c));
}

ListedBlocks BigBirdImpl::listed_blocks(const Batch& batch, const std::vector<int64_t>& lengths, int64_t layer) const {
  const int64_t size = options_.block_size, each = options_.random_blocks, least = 6 + 2 * each;
  ListedBlocks out{.size = size, .least = least, .start = batch.start, .lengths = batch.lengths};
  const int64_t most = blocks_of(*std::max_element(lengths.begin(), lengths.end()), size);
  if (!is_training()) {
    out.listed = at::zeros({1, 1, most, each}, at::kLong);
    return out;
  }
  std::vector<Tensor> rows;
  for (const int64_t tokens : lengths) {
    rows.push_back(at::zeros({config_.heads, most, each}, at::kLong));
    const RandomBlocksOptions draw{layer, config_.heads, size, each, config_.positions};
    const int64_t n = blocks_of(tokens, size);
    if (n >= least) rows.back().narrow(1, 0, n).copy_(random_blocks(draw, n));
  }
  out.listed = at::stack(rows);  // [B, H, N, R]
  return out;
}

Tensor BigBirdImpl::encode(const Batch& batch) const {
  Batch asked = batch;
  const Tensor& ids = batch.ids;
  const bool is_empty = !ids.defined() || ids.dim() != 2 || ids.numel() == 0;
  if (config_.head == "question_answering" && !batch.type_ids.defined() && !is_empty)
    asked.type_ids = question_slots(batch).logical_not().to(at::kLong);
  const Tensor x = embed(asked);  // [B, T, C]
  StackInput in = stack_input(batch);
  if (!options_.sparse || is_empty) return encoder_->forward(x, in);
  const std::vector<int64_t> lengths = text_lengths(batch);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (blocks_of(longest, options_.block_size) <= 5 + 2 * options_.random_blocks) return encoder_->forward(x, in);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !batch.documents.defined(),
                   "big_bird: packed texts (batch.documents) do not go with sparse attention: give each a row");
  for (int64_t i = 0; i < config_.layers; ++i) {
    if (i > 0 && !is_training()) {  // nothing is drawn: all layers see the same
      in.layer_masks.push_back(in.layer_masks[0]);
      if (!in.layer_scores.empty()) in.layer_scores.push_back(in.layer_scores[0]);
      continue;
    }
    const ListedBlocks blocks = listed_blocks(batch, lengths, i);
    in.layer_masks.push_back(masks::block_window(blocks));
    if (options_.random_blocks > 0) in.layer_scores.push_back(scores::block_repeats(blocks));
  }
  in.attention_dropout = 0;
  return encoder_->forward(x, in);
}

Tensor BigBirdImpl::question_slots(const Batch& batch) const {
  const Tensor slot = at::arange(batch.ids.size(1), batch.ids.options()).unsqueeze(0);  // [1, T]
  const Tensor start = batch.start.defined() ? batch.start.unsqueeze(1) : at::zeros({1, 1}, batch.ids.options());
  Tensor separators = batch.ids.eq(options_.sep_token_id);
  if (const Tensor real = bert_real_tokens(batch); real.defined()) separators = separators.logical_and(real);
  const Tensor first = separators.cumsum(1).eq(0).sum(1, /*keepdim=*/true);  // [B, 1]; T where there is none
  const Tensor last = first.where(first < batch.ids.size(1), start);  // without one, the question is the first token
  return slot.ge(start).logical_and(slot.le(last));
}

Tensor BigBirdImpl::classify(const Tensor& hidden, const Batch& batch) const {
  if (answer_norm_.is_empty()) return BertImpl::classify(hidden, batch);
  const Tensor inner = answer_feed_forward_->forward(drop(hidden, config_.dropout, is_training()));
  const Tensor logits = classifier_->forward(
      answer_norm_->forward(hidden, inner, is_training() ? config_.dropout : 0).normed);  // [B, T, 2]
  if (batch.ids.numel() == 0) return logits;
  const Tensor slot = at::arange(batch.ids.size(1), batch.ids.options()).unsqueeze(0);
  const Tensor first = batch.start.defined() ? slot.eq(batch.start.unsqueeze(1)) : slot.eq(0);
  const Tensor question = question_slots(batch).logical_and(first.logical_not());  // [B, T]
  return logits - question.to(logits.scalar_type()).unsqueeze(2) * 1e6;
}

BigBirdConfig BigBirdImpl::read_config(const nlohmann::json& j) {
  BigBirdConfig c;
  nlohmann::json filled = j;  // with BigBird's defaults
  const auto fill = [&](const char* key, const nlohmann::json& value) {
    if (filled.value(key, nlohmann::json()).is_null()) filled[key] = value;
  };
  fill("vocab_size", c.bert.vocab_size);
  fill("max_position_embeddings", c.bert.positions);
  fill("hidden_act", c.bert.activation);
  c.bert = read_bert_config(filled, "big_bird");
  c.bert.attention_bias = config_value(j, "use_bias", true);
  c.bert.scaled_embedding = config_value(j, "rescale_embeddings", false);
  const std::string type = config_value(j, "attention_type", std::string("block_sparse"));
  FOVEA_CHECK_INPUT(type == "block_sparse" || type == "original_full", "config.json: \"attention_type\" is \"", type,
                    "\", wanted \"block_sparse\" or \"original_full\"");
  c.sparse = type == "block_sparse";
  c.block_size = config_size(j, "block_size", c.block_size);
  c.random_blocks = config_value(j, "num_random_blocks", c.random_blocks);
  c.sep_token_id = config_value(j, "sep_token_id", c.sep_token_id);
  return c;
}

nlohmann::json BigBirdImpl::config() const {
  nlohmann::json out = BertImpl::config();
  out["use_bias"] = config_.attention_bias;
  out["rescale_embeddings"] = config_.scaled_embedding;
  out["attention_type"] = options_.sparse ? "block_sparse" : "original_full";
  out["block_size"] = options_.block_size;
  out["num_random_blocks"] = options_.random_blocks;
  out["sep_token_id"] = options_.sep_token_id;
  return out;
}

std::vector<TensorName> BigBirdImpl::tensor_names() const {
  std::vector<TensorName> out = BertImpl::tensor_names();
  const auto both = [&](const std::string& stored, const std::string& ours, bool optional) {
    for (const char* part : {".weight", ".bias"})
      out.push_back({.stored = stored + part, .ours = {ours + part}, .optional = optional});
  };
  if (!answer_norm_.is_empty()) {
    both("qa_classifier.intermediate.dense", "answer_feed_forward.up", false);
    both("qa_classifier.output.dense", "answer_feed_forward.down", false);
    both("qa_classifier.output.LayerNorm", "answer_norm", false);
  }
  if (!unused_pooler_.is_empty()) both("bert.pooler", "unused_pooler", true);
  return out;
}

void BigBirdImpl::leave_out(const std::vector<std::string>& stored) {
  if (unused_pooler_.is_empty()) return BertImpl::leave_out(stored);
  unregister_module("unused_pooler");
  unused_pooler_ = nullptr;
  config_.pooler = false;
}

void register_models_bigbird(ModelsRegistry& registry) {
  registry.add("big_bird", {.from_config = [](const nlohmann::json& config) -> Model {
                              return std::make_shared<BigBirdImpl>(BigBirdImpl::read_config(config));
                            },
                            .architectures = bert_architectures("big_bird"),
                            .recipe = [] { return std::make_unique<BigBirdRecipe>(); }});
}

}  // namespace fovea
