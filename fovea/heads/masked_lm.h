// Which token stands behind a mask: a linear layer, an activation, a norm, then the output projection, which is the
// embedding unless it is not tied (Devlin et al. 2019, section 3.1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include <string>

#include "fovea/layers/activation.h"
#include "fovea/layers/module.h"
#include "fovea/layers/norm.h"

namespace fovea {

struct MaskedLMHeadOptions {
  int64_t vocabulary = 0;  // V
  int64_t width = 0;       // C
  std::string activation = "gelu";
  double eps = 1e-12;
  bool tied = true;
};

class MaskedLMHeadImpl : public torch::nn::Module {
 public:
  explicit MaskedLMHeadImpl(MaskedLMHeadOptions options);
  // hidden [..., C], the embedding's table [V, C] (read where tied) -> logits [..., V]
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& table) const;

  torch::nn::Linear dense{nullptr};  // C -> C
  Norm norm;
  at::Tensor weight;  // [V, C], only where not tied
  at::Tensor bias;    // [V]

 private:
  MaskedLMHeadOptions options_;
  Activation activation_;
};
FOVEA_MODULE(MaskedLMHead, MaskedLMHeadOptions);

}  // namespace fovea
