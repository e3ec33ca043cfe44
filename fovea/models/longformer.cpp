// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/longformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/masks/window_global.h"
#include "fovea/models/bert_folder.h"
#include "fovea/models/bert_recipe.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

BertConfig longformer_bert(BertConfig c) {
  c.type = "longformer";
  return c;
}

std::vector<int64_t> layer_windows(const LongformerConfig& c) {
  const int64_t given = int64_t(c.windows.size());
  FOVEA_CHECK_CONFIG(given == 1 || given == c.bert.layers, "longformer: attention_window has ", given,
                     " entries, wanted 1 or one for each of ", c.bert.layers, " layers");
  for (const int64_t window : c.windows)
    FOVEA_CHECK_CONFIG(window > 0 && window % 2 == 0, "longformer: attention_window is ", window,
                       ", wanted an even number above 0: half of it lies on either side of a token");
  return given == 1 ? std::vector<int64_t>(size_t(std::max<int64_t>(c.bert.layers, 0)), c.windows[0]) : c.windows;
}

StackOptions longformer_stack(StackOptions options) {
  options.block.attention.variant = "longformer";
  return options;
}

// Tokens before the first of three separators; bool [B, T].
Tensor question_tokens(const Tensor& ids, const Tensor& real, int64_t separator) {
  Tensor separators = ids.eq(separator);
  if (real.defined()) separators = separators.logical_and(real);
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const bool empty = ids.size(1) == 0 || (real.defined() && !real[b].any().item<bool>());
    const int64_t count = separators[b].sum().item<int64_t>();
    FOVEA_CHECK_KIND(ErrorKind::kArgument, count == 3 || empty, "longformer: row ", b, " has ", count,
                     " separators (token ", separator,
                     "), wanted the three of a question and its text; or say in batch.global which tokens are global");
  }
  return separators.cumsum(1).eq(0);
}

Tensor marked_tokens(const Batch& batch) {
  const Tensor& global = batch.global;
  const bool counts = at::isIntegralType(global.scalar_type(), /*includeBool=*/true);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, counts && global.sizes() == batch.ids.sizes(), "longformer: global is ",
                   toString(global.scalar_type()), ' ', global.sizes(), ", wanted bool ", batch.ids.sizes(),
                   ": a mark for each token");
  return global.ne(0);
}

class LongformerRecipe : public BertRecipe {
 public:
  LongformerRecipe() : BertRecipe("longformer") {}
  void visit(FieldVisitor& v) override {
    BertRecipe::visit(v);
    v.field("window", window_, "tokens that a token sees beside itself, half on either side");
  }

 protected:
  nlohmann::json written(const BertConfig& c) const override {
    return Longformer(LongformerConfig{.bert = c, .windows = {window_}})->config();
  }

 private:
  int64_t window_ = 64;
};

}  // namespace

LongformerImpl::LongformerImpl(LongformerConfig config)
    : BertImpl(longformer_bert(config.bert), longformer_stack(encoder_options(longformer_bert(config.bert)))),
      windows_(layer_windows(config)),
      sep_token_id_(config.sep_token_id) {}

std::shared_ptr<BertImpl> LongformerImpl::relative(BertConfig config) const {
  return std::make_shared<LongformerImpl>(LongformerConfig{std::move(config), windows_, sep_token_id_});
}

Tensor LongformerImpl::global_tokens(const Batch& batch) const {
  const Tensor real = bert_real_tokens(batch);  // [B, T] or undefined
  Tensor global;
  if (batch.global.defined()) {
    global = marked_tokens(batch);
    const Tensor marks = global.sum(1);
    for (int64_t b = 0; real.defined() && b < marks.size(0); ++b)
      FOVEA_CHECK_KIND(ErrorKind::kArgument, marks[b].item<int64_t>() <= real[b].sum().item<int64_t>(),
                       "longformer: row ", b, " marks ", marks[b].item<int64_t>(), " tokens as global, it has ",
                       real[b].sum().item<int64_t>());
  } else if (config_.head == "question_answering") {
    global = question_tokens(batch.ids, real, sep_token_id_);
  } else if (config_.head == "classifier") {
    const Tensor slot = at::arange(batch.ids.size(1), batch.ids.options()).unsqueeze(0);
    global = batch.start.defined() ? slot.eq(batch.start.unsqueeze(1)) : slot.eq(0).expand(batch.ids.sizes());
  } else {
    return {};
  }
  return real.defined() ? global.logical_and(real) : global;
}

Tensor LongformerImpl::encode(const Batch& batch) const {
  const Tensor x = embed(batch);  // [B, T, C]
  StackInput in = stack_input(batch);
  in.global = global_tokens(batch);
  const Tensor global = in.global.defined() ? in.global : at::zeros({x.size(1)}, at::kBool);
  for (const int64_t window : windows_)
    in.layer_masks.push_back(masks::window_global(window / 2, global, /*global_rows=*/false));
  return encoder_->forward(x, in);
}

LongformerConfig LongformerImpl::read_config(const nlohmann::json& j) {
  LongformerConfig c{.bert = read_bert_config(j, "longformer")};
  c.sep_token_id = config_value(j, "sep_token_id", c.sep_token_id);
  const auto window = j.find("attention_window");
  if (window != j.end() && window->is_array()) {
    c.windows.clear();
    for (const auto& entry : *window) {
      FOVEA_CHECK_INPUT(entry.is_number_integer(), "config.json: \"attention_window\": wanted whole numbers, got ",
                        entry.dump());
      c.windows.push_back(entry.get<int64_t>());
    }
  } else {
    c.windows = {config_value(j, "attention_window", c.windows[0])};
  }
  return c;
}

nlohmann::json LongformerImpl::config() const {
  nlohmann::json out = BertImpl::config();
  out["attention_window"] = windows_;
  out["sep_token_id"] = sep_token_id_;
  return out;
}

std::vector<TensorName> LongformerImpl::tensor_names() const {
  std::vector<TensorName> out = BertImpl::tensor_names();
  const std::string stored = config_.head == "none" ? "" : outer_prefix();
  for (int64_t i = 0; i < config_.layers; ++i)
    for (const std::string part : {"query", "key", "value"})
      for (const std::string kind : {".weight", ".bias"}) {
        const std::string layer = std::to_string(i) + ".attention.";
        const std::string name = "encoder.layer." + layer + "self." + part + "_global" + kind;
        out.push_back({.stored = stored + name, .ours = {"encoder.layers." + layer + "variant." + part + kind}});
        if (config_.head == "none") out.back().aliases = {"longformer." + name};
      }
  return out;
}

void register_models_longformer(ModelsRegistry& registry) {
  registry.add("longformer", {.from_config = [](const nlohmann::json& config) -> Model {
                                return std::make_shared<LongformerImpl>(LongformerImpl::read_config(config));
                              },
                              .architectures = bert_architectures("longformer"),
                              .recipe = [] { return std::make_unique<LongformerRecipe>(); }});
}

}  // namespace fovea
