// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/residual_cnn.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "fovea/base/check.h"
#include "fovea/base/probe.h"
#include "fovea/base/size.h"
#include "fovea/io/json.h"
#include "fovea/layers/batch_norm.h"
#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

constexpr int64_t kMostStages = 16;

class ResidualCnnRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor& v) override { config_.visit(v); }
  nlohmann::json config(int64_t) const override {
    throw Error(ErrorKind::kConfig,
                "a residual_cnn model reads no text; data.kind = \"images\" is what it learns from");
  }
  nlohmann::json image_config(const std::vector<std::string>& labels) const override {
    ResidualCnnConfig c = config_;
    if (c.labels.empty()) c.labels = labels;
    return ResidualCnn(c)->config();
  }

 private:
  ResidualCnnConfig config_;
};

}  // namespace

void ResidualCnnConfig::visit(FieldVisitor& v) {
  v.field("image_size", image_size, "pixels: rows and columns, or one number for both");
  v.field("channels", channels, "of the images");
  v.field("width", width, "channels of the first stage; each later one doubles them");
  v.field("stages", stages, "each after the first halves rows and columns");
  v.field("blocks", blocks, "of each stage");
  v.field("channel_attention", channel_attention, "squeeze_excitation, eca, cbam, coordinate or none");
  v.section("attention", [&](FieldVisitor& inner) { attention.visit_settings(inner); });  // channels: each stage's
  v.field("labels", labels, "names of the classes in order; none: as the data has them");
}

// A convolution without bias and what follows it: batch normalisation.
struct ResidualCnnImpl::NormedConvolution : torch::nn::Module {
  NormedConvolution(int64_t from, int64_t to, int64_t kernel, int64_t stride) : stride(stride) {
    weight = register_parameter("weight", at::empty({to, from, kernel, kernel}));
    norm = BatchNorm("residual_cnn", {.width = to}, *this);
  }
  void initialize() {
    const torch::NoGradGuard no_gradient;
    const int64_t outputs = weight.size(0) * weight.size(2) * weight.size(3);
    weight.normal_(0, std::sqrt(2 / double(outputs)));
    norm.reset();
  }
  Tensor forward(const Tensor& x) const {
    return norm.forward(at::conv2d(x, weight, {}, stride, weight.size(2) / 2), is_training());
  }
  // `places` that it makes.
  int64_t multiply_adds(int64_t places) const { return weight.numel() * places; }

  int64_t stride;
  Tensor weight;   // [C out, C in, k, k]
  BatchNorm norm;  // over C out
};

struct ResidualCnnImpl::Block : torch::nn::Module {
  Block(int64_t from, int64_t to, int64_t stride, const ResidualCnnConfig& c) {
    first = register_module("first", std::make_shared<NormedConvolution>(from, to, 3, stride));
    second = register_module("second", std::make_shared<NormedConvolution>(to, to, 3, 1));
    if (from != to) skip = register_module("skip", std::make_shared<NormedConvolution>(from, to, 1, stride));
    if (c.channel_attention == "none") return;
    ChannelOptions options = c.attention;
    options.channels = to;
    attention = register_module("attention", make_channel_attention(c.channel_attention, options));
  }
  Tensor forward(const Tensor& x) const {
    Tensor y = second->forward(first->forward(x).relu());
    if (attention) y = attention->forward(y);
    return (y + (skip ? skip->forward(x) : x)).relu();
  }
  int64_t multiply_adds(int64_t Y, int64_t X) const {
    int64_t out = first->multiply_adds(Y * X) + second->multiply_adds(Y * X);
    if (skip) out += skip->multiply_adds(Y * X);
    return attention ? out + attention->multiply_adds(Y, X) : out;
  }

  std::shared_ptr<NormedConvolution> first, second, skip;  // skip: where channels change
  ChannelAttention attention;                              // null: none
};

ResidualCnnImpl::ResidualCnnImpl(ResidualCnnConfig config) : config_(std::move(config)) {
  const ResidualCnnConfig& c = config_;
  image_ = image_axes("residual_cnn: image_size", c.image_size);
  for (const auto& [name, value] : {std::pair{"channels", c.channels},
                                    {"width", c.width},
                                    {"stages", c.stages},
                                    {"blocks", c.blocks},
                                    {"image_size", std::min(image_[0], image_[1])}})
    FOVEA_CHECK_CONFIG(value > 0, "residual_cnn: ", name, " is ", value, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(c.stages <= kMostStages, "residual_cnn: stages is ", c.stages, ", wanted at most ", kMostStages);
  const int64_t pixels = pixels_of_place();
  FOVEA_CHECK_CONFIG(image_[0] % pixels == 0 && image_[1] % pixels == 0, "residual_cnn: images of ", image_[0], " x ",
                     image_[1], " cannot be halved ", c.stages - 1, " times; wanted multiples of ", pixels);
  const double last = double(c.width) * double(pixels);
  check_labels(c.labels);
  check_parameters("residual_cnn", double(c.channels) * double(c.width) * 9 + double(c.blocks) * last * last * 18 + double(c.labels.size()) * last);
  stem_ = register_module("stem", std::make_shared<NormedConvolution>(c.channels, c.width, 3, 1));
  torch::nn::ModuleList list;
  for (int64_t stage = 0, from = c.width; stage < c.stages; ++stage)
    for (int64_t i = 0; i < c.blocks; ++i) {
      const bool halves = stage > 0 && i == 0;
      const int64_t to = halves ? 2 * from : from;
      blocks_.push_back(std::make_shared<Block>(from, to, halves ? 2 : 1, c));
      list->push_back(blocks_.back());
      from = to;
    }
  register_module("blocks", list);
  if (!c.labels.empty())
    classifier_ =
        register_module("classifier", Classifier({.width = int64_t(last), .classes = int64_t(c.labels.size())}));
  initialize();
}

void ResidualCnnImpl::initialize() {
  if (Undrawn::here()) return;
  const torch::NoGradGuard no_gradient;
  stem_->initialize();
  for (const auto& block : blocks_)
    for (const auto& part : {block->first, block->second, block->skip})
      if (part) part->initialize();
  if (classifier_.is_empty()) return;
  classifier_->output->weight.normal_(0, 0.01);
  classifier_->output->bias.zero_();
}

Tensor ResidualCnnImpl::maps(const Batch& batch) const {
  const Tensor& images = batch.images;
  FOVEA_CHECK(images.defined(), "residual_cnn: the batch has no images");
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   images.dim() == 4 && images.size(1) == config_.channels && images.size(2) == image_[0] &&
                       images.size(3) == image_[1] && images.is_floating_point(),
                   "residual_cnn: images are ", images.scalar_type(), " ", images.sizes(),
                   ", wanted floating-point [B, ", config_.channels, ", ", image_[0], ", ", image_[1], "]");
  Tensor x = stem_->forward(images).relu();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const ProbeScope scope("blocks", int64_t(i));
    x = blocks_[i]->forward(x);
  }
  return x;
}

Tensor ResidualCnnImpl::encode(const Batch& batch) const { return maps(batch).flatten(2).transpose(1, 2); }

Tensor ResidualCnnImpl::forward(const Batch& batch) const {
  return classifier_.is_empty() ? encode(batch) : classifier_->forward(maps(batch).mean({2, 3}));
}

LossSum ResidualCnnImpl::loss(const Batch& batch, double label_smoothing) {
  FOVEA_CHECK(!classifier_.is_empty(), "residual_cnn: a model without a classifier has no loss");
  FOVEA_CHECK(batch.labels.defined(), "residual_cnn: the batch has no labels");
  const auto out = classifier_->loss(forward(batch), batch.labels, label_smoothing);
  return {out.sum, out.count};
}

std::optional<int64_t> ResidualCnnImpl::multiply_adds() const {
  int64_t Y = image_[0], X = image_[1], out = stem_->multiply_adds(Y * X);
  for (const auto& block : blocks_) {
    Y /= block->first->stride, X /= block->first->stride;
    out += block->multiply_adds(Y, X);
  }
  return classifier_.is_empty() ? out : out + classifier_->output->weight.numel();
}

int64_t ResidualCnnImpl::max_positions() const {
  return image_[0] / pixels_of_place() * (image_[1] / pixels_of_place());
}

EncoderModel ResidualCnnImpl::with_head(const std::string& head, const std::vector<std::string>& labels) const {
  FOVEA_CHECK_CONFIG(head == "classifier" || head == "none", "residual_cnn: unknown head \"", head,
                     "\"; wanted \"classifier\" or \"none\"");
  ResidualCnnConfig c = config_;
  c.labels = head == "none" ? std::vector<std::string>() : labels;
  auto out = std::make_shared<ResidualCnnImpl>(c);
  out->take_encoder(*this);
  return out;
}

ResidualCnnConfig ResidualCnnImpl::read_config(const nlohmann::json& j) {
  ResidualCnnConfig c;
  fill_from_json(c, j, "config.json", UnknownKeys::kIgnore);
  return c;
}

nlohmann::json ResidualCnnImpl::config() const {
  nlohmann::json out{{"model_type", "residual_cnn"}};
  write_to_json(config_, out);
  // As other models that see say it: what an image is, and the pixels of a place of the last stage, on each axis.
  out["image_size"] = image_;
  out["num_channels"] = config_.channels;
  out["patch_size"] = pixels_of_place();
  return out;
}

void register_models_residual_cnn(ModelsRegistry& registry) {
  registry.add("residual_cnn", {.from_config = [](const nlohmann::json& config) -> Model {
                                  return std::make_shared<ResidualCnnImpl>(ResidualCnnImpl::read_config(config));
                                },
                                .recipe = [] { return std::make_unique<ResidualCnnRecipe>(); }});
}

}  // namespace fovea
