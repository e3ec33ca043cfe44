// One vector for a whole sequence: its first token's, through a linear layer (Devlin et al. 2019, section 3.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include <string>

#include "fovea/layers/activation.h"
#include "fovea/layers/module.h"

namespace fovea {

// hidden [B, T, C] -> [B, C]: each row's first real token, in slot start[b] (int64 [B]; undefined: slot 0). A row
// without tokens has the state of its padding, which may all stand on the left (start = T).
at::Tensor first_token(const at::Tensor& hidden, const at::Tensor& start = {});

struct PoolerOptions {
  int64_t width = 0;
  int64_t output_width = 0;  // P; 0: width
  std::string activation = "tanh";
  double dropout = 0;  // on what enters
};

class PoolerImpl : public torch::nn::Module {
 public:
  explicit PoolerImpl(PoolerOptions options);
  // [B, T, C] -> [B, P]
  at::Tensor forward(const at::Tensor& hidden, const at::Tensor& start = {}) const;

  torch::nn::Linear dense{nullptr};  // C -> P

 private:
  PoolerOptions options_;
  Activation activation_;
};
FOVEA_MODULE(Pooler, PoolerOptions);

}  // namespace fovea
