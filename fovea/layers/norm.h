// Normalisation over the channels, by name.
//
//   layer   (x − mean) / √(variance + eps) · weight + bias      (Ba et al. 2016, equation 3)
//   rms     x / √(mean(x²) + eps) · weight                      (Zhang & Sennrich 2019, equation 4)
//
// Statistics are taken in f32 (f64 for f64) whatever x's type; the result is rounded to x's type once, at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fovea/layers/module.h"

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
  void reset();  // weight 1, bias 0

  at::Tensor weight;  // [C]
  at::Tensor bias;    // [C], or undefined

 private:
  NormOptions options_;
  bool rms_;
};
FOVEA_MODULE(Norm, NormOptions);

}  // namespace fovea
