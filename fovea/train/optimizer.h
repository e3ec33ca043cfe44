// AdamW (Loshchilov & Hutter 2019) by LibTorch's fused step, with decay groups, clipping by global norm and a state
// that is saved by parameter name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/io/safetensors.h"
#include "fovea/train/options.h"

namespace fovea {

struct NamedParameter {
  std::string name;  // the path in the module: "decoder.layers.3.norm.weight"
  at::Tensor value;
};

// Every distinct parameter once, in the module's order; a tied one under its first name.
std::vector<NamedParameter> distinct_parameters(const torch::nn::Module& module);

// Parameters whose name matches one of the globs stop learning. Error(kConfig) for a pattern that matches nothing, and
// where nothing is left to learn.
void freeze_parameters(const std::vector<NamedParameter>& parameters, const std::vector<std::string>& patterns);

class AdamW {
 public:
  // Takes the parameters that require gradients. Weight decay spares those of fewer than two dimensions (biases, norms)
  // and those whose name matches `options.no_decay`.
  AdamW(const std::vector<NamedParameter>& parameters, const OptimOptions& options);

  void zero_grad();  // drops the gradients: the next backward pass writes instead of adding
  // The global norm of all gradients; above options.clip > 0 they are scaled by clip / (norm + 1e-6).
  double clip_gradients();
  // One update. A parameter without a gradient keeps its value, its moments and its own count of steps.
  void step(double learning_rate);

  bool decays(const std::string& name) const;  // Error(kArgument) for an unknown name

  // "exp_avg.<name>", "exp_avg_sq.<name>", "step.<name>"; they share storage with the optimiser.
  NamedTensors state() const;
  // Error(kInput) naming file and tensor where one is missing or has another shape or type.
  void load(const SafetensorsFile& file);

 private:
  // Parallel lists, as the fused step wants them.
  struct Group {
    double weight_decay;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters, exp_avg, exp_avg_sq, steps;
  };
  std::vector<at::Tensor> gradients() const;

  OptimOptions options_;
  std::vector<Group> groups_;
};

}  // namespace fovea
