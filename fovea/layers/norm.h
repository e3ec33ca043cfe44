// Normalisation over the channels as a module, by name: "layer" or "rms". Equations: ops/norm.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fovea/layers/module.h"
#include "fovea/ops/norm.h"

namespace fovea {

struct NormOptions {
  int64_t width = 0;
  std::string kind = "layer";  // "layer", "rms"
  double eps = 1e-5;
  bool bias = true;  // "layer" only; "rms" has none
};

class NormImpl : public torch::nn::Module {
 public:
  explicit NormImpl(NormOptions options);
  // [..., C] -> [..., C]
  at::Tensor forward(const at::Tensor& x) const;
  // x + dropout(added), and its norm, in one pass; `dropout` is a probability (0 outside training).
  ResidualNorm forward(const at::Tensor& x, const at::Tensor& added, double dropout) const;
  void reset();  // weight 1, bias 0

  at::Tensor weight;  // [C]
  at::Tensor bias;    // [C], or undefined

 private:
  NormParameters checked(const at::Tensor& x) const;

  NormOptions options_;
  bool rms_;
};
FOVEA_MODULE(Norm, NormOptions);

}  // namespace fovea
