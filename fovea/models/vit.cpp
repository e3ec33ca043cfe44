// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/vit.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/base/nearest.h"
#include "fovea/base/size.h"
#include "fovea/layers/init.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {
namespace {

// `grid`: rows and columns of patches.
StackOptions vit_stack(const VitConfig& c, const std::vector<int64_t>& grid) {
  return {.layers = c.layers,
          .block = {.attention = {.width = c.width,
                                  .heads = c.heads,
                                  .head_width = c.head_width,
                                  .bias = c.qkv_bias,
                                  .output_bias = true,
                                  .dropout = c.attention_dropout},
                    .feed_forward = {.hidden = c.hidden, .activation = c.activation},
                    .eps = c.eps,
                    .pre_norm = true,
                    .dropout = c.dropout},
          .position = c.position == "learned" ? "none" : c.position,  // learned ones are added to the patches
          .positions = {.grid = grid},
          .embed_dropout = c.dropout,
          .final_norm = true};
}

class VitRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override {
    v.field("image_size", config_.image_size, "pixels: rows and columns, or one number for both");
    v.field("patch_size", config_.patch_size, "likewise");
    v.field("channels", config_.channels, "of the images");
    v.field("width", config_.width, "channels");
    v.field("layers", config_.layers, "blocks");
    v.field("heads", config_.heads, "attention heads");
    v.field("hidden", config_.hidden, "width of the feed-forward; 0: 4 times width");
    v.field("position_type", config_.position, "learned, sinusoidal_2d, rope_2d or none");
    v.field("activation", config_.activation, "of the feed-forward");
    v.field("dropout", config_.dropout, "on embeddings and what each part adds");
    v.field("attention_dropout", config_.attention_dropout, "on attention weights");
    v.field("initializer_range", config_.initializer_range, "deviation of initial weights");
    v.field("labels", config_.labels, "names of the classes in order; none: as the data has them");
  }
  nlohmann::json config(int64_t) const override {
    throw Error(ErrorKind::kConfig, "a vit model reads no text; data.kind = \"images\" is what it learns from");
  }
  nlohmann::json image_config(const std::vector<std::string>& labels) const override {
    VitConfig c = config_;
    c.head = "classifier";
    if (c.labels.empty()) c.labels = labels;
    const nlohmann::json out = Vit(c)->config();
    // Hugging Face's folders may leave out what fills no patch; who chooses sizes hardly means to.
    const auto image = image_axes("vit: image_size", c.image_size), patch = image_axes("vit: patch_size", c.patch_size);
    const int64_t rows = image[0] % patch[0], columns = image[1] % patch[1];
    FOVEA_CHECK_CONFIG(rows == 0 && columns == 0, "vit: images of ", image[0], " x ", image[1],
                       " do not divide into patches of ", patch[0], " x ", patch[1], ": ", rows, " rows and ", columns,
                       " columns of pixels would be left out; wanted a patch_size that divides image_size");
    return out;
  }

 private:
  VitConfig config_{.image_size = {28}, .patch_size = {7}, .channels = 1, .width = 96, .layers = 4, .heads = 4};
};

std::vector<int64_t> vit_size(const nlohmann::json& j, const char* key, std::vector<int64_t> fallback) {
  const auto found = j.find(key);
  if (found == j.end() || found->is_null()) return fallback;
  const auto values = found->is_array() ? *found : nlohmann::json::array({*found});
  std::vector<int64_t> out;
  for (const auto& value : values) {
    FOVEA_CHECK_INPUT(value.is_number_integer() && value > 0 && values.size() <= 2, "config.json: \"", key, "\" is ",
                      dump_json(*found), ", wanted a positive number or a list of two");
    out.push_back(value.get<int64_t>());
  }
  return out;
}

std::string vit_head(const nlohmann::json& j) {
  const auto architectures = j.value("architectures", nlohmann::json());
  if (!architectures.is_array() || architectures.empty() || architectures[0] == "ViTModel") return "none";
  FOVEA_CHECK_INPUT(architectures[0] == "ViTForImageClassification", "config.json: architecture ",
                    dump_json(architectures[0]), " is not supported, only ViTModel and ViTForImageClassification");
  return "classifier";
}

}  // namespace

VitImpl::VitImpl(VitConfig config) : config_(std::move(config)) {
  VitConfig& c = config_;
  const bool classifies = c.head == "classifier";
  FOVEA_CHECK_CONFIG(classifies || c.head == "none", "vit: unknown head \"", c.head, "\"",
                     suggestion(c.head, {"none", "classifier"}));
  check_labels(c.labels);
  FOVEA_CHECK_CONFIG(!classifies || !c.labels.empty(), "vit: a classifier needs the names of its classes");
  const std::vector<std::string> positions{"learned", "sinusoidal_2d", "rope_2d", "none"};
  FOVEA_CHECK_CONFIG(std::find(positions.begin(), positions.end(), c.position) != positions.end(),
                     "vit: unknown position_type \"", c.position, "\"", suggestion(c.position, positions));
  FOVEA_CHECK_CONFIG(c.pooler_width >= 0, "vit: pooler_width is ", c.pooler_width, ", wanted at least 0");
  if (c.hidden == 0) c.hidden = times(4, c.width);
  if (c.pooler_width == 0) c.pooler_width = c.width;
  embedding_ = register_module("embedding", PatchEmbedding({.width = c.width,
                                                            .channels = c.channels,
                                                            .image = image_axes("vit: image_size", c.image_size),
                                                            .patch = image_axes("vit: patch_size", c.patch_size),
                                                            .any_image_size = c.any_image_size,
                                                            .positions = c.position == "learned"}));
  const auto [rows, columns] = embedding_->grid();
  encoder_ = register_module("encoder", Stack(vit_stack(c, {rows, columns})));
  if (classifies) {
    check_parameters("vit: labels", double(c.labels.size()) * double(c.width));
    classifier_ = register_module(
        "classifier", Classifier({.width = c.width, .classes = int64_t(c.labels.size()), .problem = c.problem}));
  } else if (c.pooler) {
    check_parameters("vit: pooler", double(c.pooler_width) * double(c.width));
    pooler_ = register_module(
        "pooler", Pooler({.width = c.width, .output_width = c.pooler_width, .activation = c.pooler_activation}));
  }
  initialize();
}

void VitImpl::initialize() { init::normal(*this, config_.initializer_range); }

Tensor VitImpl::encode(const Batch& batch) const {
  FOVEA_CHECK(batch.images.defined(), "vit: the batch has no images");
  const Tensor x = embedding_->forward(batch.images);  // [B, 1 + N, C]
  const auto [rows, columns] = embedding_->grid(batch.images);
  return encoder_->forward(x, {.positions = CellGrid{rows, columns, 1}});
}

Tensor VitImpl::forward(const Batch& batch) const {
  const Tensor hidden = encode(batch);
  return classifier_.is_empty() ? hidden : classifier_->forward(first_token(hidden));
}

Tensor VitImpl::pooled(const Batch& batch) const {
  FOVEA_CHECK(has_pooler(), "this vit model has no pooler");
  return pooler_->forward(encode(batch));
}

EncoderModel VitImpl::with_head(const std::string& head, const std::vector<std::string>& labels) const {
  VitConfig c = config_;
  c.head = head;
  c.labels = labels;
  c.problem.clear();
  auto out = std::make_shared<VitImpl>(c);
  out->take_encoder(*this);
  return out;
}

Tensor VitImpl::scores(const Tensor& logits) const {
  return classifier_.is_empty() ? EncoderModelImpl::scores(logits) : classifier_->scores(logits);
}

LossSum VitImpl::loss(const Batch& batch, double label_smoothing) {
  FOVEA_CHECK(!classifier_.is_empty(), "vit: a model without a classifier has no loss");
  FOVEA_CHECK(batch.labels.defined(), "vit: the batch has no labels");
  const auto out = classifier_->loss(forward(batch), batch.labels, label_smoothing);
  return {out.sum, out.count};
}

int64_t VitImpl::max_positions() const { return 1 + embedding_->grid()[0] * embedding_->grid()[1]; }

VitConfig VitImpl::read_config(const nlohmann::json& j) {
  VitConfig c;
  c.image_size = vit_size(j, "image_size", c.image_size);
  c.patch_size = vit_size(j, "patch_size", c.patch_size);
  c.channels = config_size(j, "num_channels", c.channels);
  c.width = config_size(j, "hidden_size", c.width);
  c.layers = config_size(j, "num_hidden_layers", c.layers);
  c.heads = config_size(j, "num_attention_heads", c.heads);
  if (j.contains("head_dim") && !j["head_dim"].is_null()) c.head_width = config_size(j, "head_dim", 1);
  c.hidden = config_size(j, "intermediate_size", 3072);
  c.activation = config_value(j, "hidden_act", c.activation);
  c.dropout = config_value(j, "hidden_dropout_prob", c.dropout);
  c.attention_dropout = config_value(j, "attention_probs_dropout_prob", c.attention_dropout);
  c.qkv_bias = config_value(j, "qkv_bias", c.qkv_bias);
  c.eps = config_value(j, "layer_norm_eps", c.eps);
  c.initializer_range = config_value(j, "initializer_range", c.initializer_range);
  c.any_image_size = config_value(j, "interpolate_pos_encoding", c.any_image_size);
  c.position = config_value(j, "position_type", c.position);
  c.head = vit_head(j);
  if (c.head == "classifier") {
    c.labels = config_labels(j);
    c.problem = config_value(j, "problem_type", c.problem);
  }
  c.pooler_width = config_value(j, "pooler_output_size", c.pooler_width);
  c.pooler_activation = config_value(j, "pooler_act", c.pooler_activation);
  return c;
}

nlohmann::json VitImpl::config() const {
  const auto& c = config_;
  // One number where both axes have it: transformers resizes positions of such models only.
  const auto size = [](const std::array<int64_t, 2>& s) {
    return s[0] == s[1] ? nlohmann::json(s[0]) : nlohmann::json(s);
  };
  // Another name where the positions are none that transformers' ViT has: it would read the folder and leave them out.
  nlohmann::json out{{"model_type", c.position == "learned" ? "vit" : "fovea_vit"},
                     {"architectures", {c.head == "classifier" ? "ViTForImageClassification" : "ViTModel"}},
                     {"image_size", size(embedding_->options().image)},
                     {"patch_size", size(embedding_->options().patch)},
                     {"num_channels", c.channels},
                     {"hidden_size", c.width},
                     {"num_hidden_layers", c.layers},
                     {"num_attention_heads", c.heads},
                     {"intermediate_size", c.hidden},
                     {"hidden_act", c.activation},
                     {"hidden_dropout_prob", c.dropout},
                     {"attention_probs_dropout_prob", c.attention_dropout},
                     {"qkv_bias", c.qkv_bias},
                     {"layer_norm_eps", c.eps},
                     {"initializer_range", c.initializer_range},
                     {"pooler_output_size", c.pooler_width},
                     {"pooler_act", c.pooler_activation}};
  if (c.head_width > 0) out["head_dim"] = c.head_width;
  if (c.position != "learned") out["position_type"] = c.position;
  if (c.any_image_size) out["interpolate_pos_encoding"] = true;  // an argument of each call in transformers
  if (c.head == "classifier") write_config_labels(c.labels, out);
  if (!c.problem.empty()) out["problem_type"] = c.problem;
  return out;
}

std::vector<TensorName> VitImpl::tensor_names() const {
  std::vector<TensorName> out;
  const auto one = [&](const std::string& stored, const std::string& ours) {
    out.push_back({.stored = stored, .ours = {ours}});
  };
  const auto both = [&](const std::string& stored, const std::string& ours) {
    for (const char* part : {".weight", ".bias"}) one(stored + part, ours + part);
  };
  one("vit.embeddings.cls_token", "embedding.class_token");
  if (config_.position == "learned") one("vit.embeddings.position_embeddings", "embedding.positions");
  both("vit.embeddings.patch_embeddings.projection", "embedding");
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string stored = "vit.encoder.layer." + std::to_string(i), ours = "encoder.layers." + std::to_string(i);
    both(stored + ".layernorm_before", ours + ".attention_norm");
    for (const char* part : {"query", "key", "value"}) {
      const std::string from = stored + ".attention.attention." + part, to = ours + ".attention." + part;
      one(from + ".weight", to + ".weight");
      if (config_.qkv_bias) one(from + ".bias", to + ".bias");
    }
    both(stored + ".attention.output.dense", ours + ".attention.output");
    both(stored + ".layernorm_after", ours + ".feed_forward_norm");
    both(stored + ".intermediate.dense", ours + ".feed_forward.up");
    both(stored + ".output.dense", ours + ".feed_forward.down");
  }
  both("vit.layernorm", "encoder.final_norm");
  if (has_pooler()) {
    both("vit.pooler.dense", "pooler.dense");
    for (auto name = out.end() - 2; name != out.end(); ++name) name->optional = true;
  }
  if (!classifier_.is_empty()) both("classifier", "classifier.output");
  return out;
}

void VitImpl::leave_out(const std::vector<std::string>&) {
  unregister_module("pooler");  // the only optional part
  pooler_ = Pooler();
  config_.pooler = false;
}

// What masked pre-training put in place of a patch.
std::vector<std::string> VitImpl::harmless_names() const { return {"*embeddings.mask_token"}; }

void register_models_vit(ModelsRegistry& registry) {
  ModelEntry entry{.from_config = [](const nlohmann::json& config) -> Model {
                     return std::make_shared<VitImpl>(VitImpl::read_config(config));
                   },
                   .recipe = [] { return std::make_unique<VitRecipe>(); }};
  registry.add("fovea_vit", entry);
  entry.architectures = {"ViTModel", "ViTForImageClassification"};
  registry.add("vit", entry);
}

}  // namespace fovea
