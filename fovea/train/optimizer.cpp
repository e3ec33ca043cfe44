// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <unordered_set>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/probe.h"

namespace fovea {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return glob_match(pattern, name); });
}

}  // namespace

std::vector<NamedParameter> distinct_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> out;
  std::unordered_set<const void*> seen;
  for (const auto& entry : module.named_parameters())
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second) out.push_back({entry.key(), entry.value()});
  return out;
}

void freeze_parameters(const std::vector<NamedParameter>& parameters, const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  for (const std::string& pattern : patterns) {
    const bool used =
        std::any_of(names.begin(), names.end(), [&](const auto& name) { return glob_match(pattern, name); });
    FOVEA_CHECK_CONFIG(used, "train.freeze: \"", pattern, "\" matches no parameter", suggestion(pattern, names));
  }
  for (const auto& [name, value] : parameters)
    if (matches_any(patterns, name)) at::Tensor(value).requires_grad_(false);
  const auto learns = [](const NamedParameter& parameter) { return parameter.value.requires_grad(); };
  FOVEA_CHECK_CONFIG(std::any_of(parameters.begin(), parameters.end(), learns),
                     "train.freeze leaves no parameter to learn");
}

AdamW::AdamW(const std::vector<NamedParameter>& parameters, const OptimOptions& options)
    : options_(options), groups_{{options.weight_decay, {}, {}, {}, {}, {}}, {0, {}, {}, {}, {}, {}}} {
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : parameters) {
    if (!value.requires_grad()) continue;
    Group& group = groups_[value.dim() >= 2 && !matches_any(options.no_decay, name) ? 0 : 1];
    group.names.push_back(name);
    group.parameters.push_back(value);
    group.exp_avg.push_back(at::zeros_like(value));
    group.exp_avg_sq.push_back(at::zeros_like(value));
    group.steps.push_back(at::zeros({}, at::kFloat));  // the fused step reads its count from a tensor
  }
}

bool AdamW::decays(const std::string& name) const {
  for (const Group& group : groups_)
    if (std::find(group.names.begin(), group.names.end(), name) != group.names.end()) return group.weight_decay > 0;
  throw Error(ErrorKind::kArgument, "AdamW::decays: no parameter \"" + name + "\" learns");
}

void AdamW::zero_grad() {
  for (Group& group : groups_)
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> AdamW::gradients() const {
  std::vector<at::Tensor> out;
  for (const Group& group : groups_)
    for (const at::Tensor& parameter : group.parameters)
      if (parameter.grad().defined()) out.push_back(parameter.grad());
  return out;
}

double AdamW::clip_gradients() {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = this->gradients();
  if (gradients.empty()) return 0;
  const double norm = at::stack(at::_foreach_norm(gradients, 2)).norm().item<double>();
  if (options_.clip > 0 && norm > options_.clip) at::_foreach_mul_(gradients, options_.clip / (norm + 1e-6));
  return norm;
}

void AdamW::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    std::vector<at::Tensor> parameters, gradients, exp_avg, exp_avg_sq, steps;
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      if (!group.parameters[i].grad().defined()) continue;
      parameters.push_back(group.parameters[i]);
      gradients.push_back(group.parameters[i].grad());
      exp_avg.push_back(group.exp_avg[i]);
      exp_avg_sq.push_back(group.exp_avg_sq[i]);
      steps.push_back(group.steps[i]);
    }
    if (parameters.empty()) continue;
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(parameters, gradients, exp_avg, exp_avg_sq, /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                      options_.beta1, options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

NamedTensors AdamW::state() const {
  NamedTensors out;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.names.size(); ++i) {
      out.emplace_back("exp_avg." + group.names[i], group.exp_avg[i]);
      out.emplace_back("exp_avg_sq." + group.names[i], group.exp_avg_sq[i]);
      out.emplace_back("step." + group.names[i], group.steps[i]);
    }
  }
  return out;
}

void AdamW::load(const SafetensorsFile& file) {
  const at::NoGradGuard no_grad;
  for (auto& [name, ours] : state()) {
    const at::Tensor stored = file.tensor(name);
    FOVEA_CHECK_INPUT(stored.sizes() == ours.sizes() && stored.scalar_type() == ours.scalar_type(),
                      file.path().native(), ": tensor \"", name, "\" is ", stored.scalar_type(), " ", stored.sizes(),
                      ", the optimiser has ", ours.scalar_type(), " ", ours.sizes());
    ours.copy_(stored);
  }
}

}  // namespace fovea
