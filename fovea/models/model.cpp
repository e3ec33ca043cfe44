// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/model.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <set>

#include "fovea/models/config_json.h"
#include "fovea/models/registry.h"

namespace fovea {

void register_all_models(ModelsRegistry& registry);

const ModelsRegistry& models_registry() {
  static const ModelsRegistry registry = [] {
    ModelsRegistry r;
    register_all_models(r);
    return r;
  }();
  return registry;
}

Tensor LossSum::mean() const { return sum / double(std::max<int64_t>(count, 1)); }

Tensor ModelImpl::forward(const Batch&) const {
  throw Error(ErrorKind::kArgument, "a " + type() + " model gives no logits for a batch");
}

Tensor EncoderModelImpl::scores(const Tensor& logits) const { return at::softmax(logits, -1, at::kFloat); }

std::shared_ptr<EncoderModelImpl> EncoderModelImpl::with_head(const std::string& head,
                                                              const std::vector<std::string>&) const {
  throw Error(ErrorKind::kConfig, "a " + type() + " model takes no other head, wanted \"" + head + "\"");
}

nlohmann::json ModelRecipe::reader_config(const ReaderNeeds&) const {
  throw Error(ErrorKind::kConfig,
              "the model does not learn from labelled or masked texts; an encoder such as bert does");
}

nlohmann::json ModelRecipe::image_config(const std::vector<std::string>&) const {
  throw Error(ErrorKind::kConfig, "the model does not learn from images; vit does");
}

std::vector<TensorName> own_names(const ModelImpl& model) {
  std::set<const void*> seen;
  std::vector<TensorName> out;
  for (const auto& list : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : list)
      if (seen.insert(item.value().unsafeGetTensorImpl()).second)
        out.push_back({.stored = item.key(), .ours = {item.key()}});
  return out;
}

int64_t ModelImpl::parameter_count() const {
  std::set<const void*> seen;  // a tied tensor is registered in several places
  int64_t count = 0;
  for (const auto& parameter : parameters())
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  return count;
}

void EncoderModelImpl::take_encoder(const EncoderModelImpl& other) {
  const at::NoGradGuard no_gradient;
  const auto copy = [](const auto& from, const auto& to) {
    for (const auto& item : to) {
      const Tensor* same = from.find(item.key());
      Tensor ours = item.value();
      if (same != nullptr && !item.key().starts_with("classifier.") && same->sizes() == ours.sizes()) ours.copy_(*same);
    }
  };
  copy(other.named_parameters(), named_parameters());
  copy(other.named_buffers(), named_buffers());
  train(other.is_training());
}

namespace {

Model build(const nlohmann::json& config) {
  if (const std::string type = config_value(config, "model_type", std::string()); !type.empty())
    return models_registry().at(type).from_config(config);
  for (const auto& architecture : config.value("architectures", nlohmann::json::array()))
    for (const auto& [name, entry] : models_registry().entries())
      for (const auto& known : entry.architectures)
        if (architecture == known) return entry.from_config(config);
  throw Error(ErrorKind::kInput,
              "config.json: neither \"model_type\" nor a known name in \"architectures\"; known model types" +
                  suggestion("", models_registry().names()).substr(7));
}

}  // namespace

Model make_model(const nlohmann::json& config) {
  try {
    return build(config);
  } catch (const Error& error) {
    // A layer calls a size that does not fit an argument or a setting; here it is what a file says.
    if (error.kind() != ErrorKind::kArgument && error.kind() != ErrorKind::kConfig) throw;
    throw Error(ErrorKind::kInput, std::string("config.json: ") + error.what());
  }
}

}  // namespace fovea
