// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/dry_run.h"

#include <ATen/core/Tensor.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/utf8.h"
#include "fovea/train/parts.h"
#include "fovea/train/train_step.h"

namespace fovea {
namespace {

using Json = nlohmann::ordered_json;

// The most memory this process has held so far.
int64_t peak_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

Json count_parameters(const std::vector<NamedParameter>& parameters) {
  Json tensors = Json::array();
  int64_t all = 0, trainable = 0, bytes = 0, trainable_bytes = 0;
  for (const NamedParameter& parameter : parameters) {
    const bool learns = parameter.value.requires_grad();
    const int64_t size = parameter.value.numel() * int64_t(parameter.value.element_size());
    tensors.push_back({{"name", parameter.name}, {"shape", parameter.value.sizes().vec()}, {"trainable", learns}});
    all += parameter.value.numel();
    bytes += size;
    if (learns) trainable += parameter.value.numel(), trainable_bytes += size;
  }
  return {{"parameters", all},
          {"trainable", trainable},
          {"bytes", {{"weights", bytes}, {"gradients", trainable_bytes}, {"optimizer", 2 * trainable_bytes}}},
          {"tensors", std::move(tensors)}};
}

void measure_step(const TrainParts& parts, const TrainOptions& options, Json& facts,
                  const std::vector<NamedParameter>& parameters) {
  AdamW optimizer(parameters, options.optim);
  Loader loader(parts.train);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.optim.accumulate; ++i) batches.push_back(loader.next());
  parts.model->train();
  double best = 0;
  for (int i = 0; i < 2; ++i) {  // the first also sets up LibTorch
    const auto begin = std::chrono::steady_clock::now();
    train_step(*parts.model, batches, optimizer, {1, 0, options.optim.label_smoothing});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  facts["step_seconds"] = best;
  facts["peak_bytes"] = peak_bytes();
}

std::string bytes_text(const Json& bytes) { return short_number(bytes.get<double>()) + "B"; }

void print(const Json& facts, const TrainOptions& options) {
  size_t widest = 0;
  for (const Json& tensor : facts["tensors"])
    widest = std::max(widest, count_code_points(tensor["name"].get_ref<const std::string&>()));
  for (const Json& tensor : facts["tensors"]) {
    const auto& name = tensor["name"].get_ref<const std::string&>();
    output().line("  " + name + std::string(widest - count_code_points(name) + 2, ' ') + tensor["shape"].dump() +
                  (tensor["trainable"].get<bool>() ? "" : "  frozen"));
  }
  const auto number = [&](const char* key) { return grouped_number(facts[key].get<int64_t>()); };
  const double seconds = facts["step_seconds"].get<double>();
  output().line("parameters  " + number("parameters") + ", of which " + number("trainable") + " learn");
  const std::string unit = unit_of(options.data.kind);
  output().line(unit + std::string(12 - unit.size(), ' ') + number("training_tokens") + " to learn from, " +
                number("validation_tokens") + " to validate on");
  output().line("memory      weights " + bytes_text(facts["bytes"]["weights"]) + " + gradients " +
                bytes_text(facts["bytes"]["gradients"]) + " + optimiser " + bytes_text(facts["bytes"]["optimizer"]) +
                "; the whole process with one step " + bytes_text(facts["peak_bytes"]));
  output().line("time        " + fixed(1000 * seconds, 1) + " ms a step, " +
                clock_time(seconds * double(options.train.steps)) + " for " + grouped_number(options.train.steps) +
                " steps without validation");
}

}  // namespace

void show_dry_run(const TrainParts& parts, const TrainOptions& options, bool json) {
  const auto parameters = distinct_parameters(*parts.model);
  freeze_parameters(parameters, options.train.freeze);
  Json facts = count_parameters(parameters);
  facts["training_tokens"] = parts.train->token_count();
  facts["validation_tokens"] = parts.validation ? parts.validation->token_count() : 0;
  measure_step(parts, options, facts, parameters);
  if (json)
    output().line(facts.dump());
  else
    print(facts, options);
}

}  // namespace fovea
