// Batch normalisation (Ioffe & Szegedy 2015, algorithms 1 and 2): each channel by its mean and variance over the batch
// and all places; in evaluation by running ones that training moved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

namespace fovea {

struct BatchNormOptions {
  int64_t width = 0;      // C
  double eps = 1e-5;      // LibTorch's, as the next
  double momentum = 0.1;  // the part of a running number that a batch replaces
};

// A part of the module that holds it, not a module of its own: its four tensors are named there, as folders have them.
class BatchNorm {
 public:
  BatchNorm() = default;  // none
  // Registers norm_weight, norm_bias, norm_mean and norm_variance with `owner`. Error(kConfig), which begins with
  // `what`, for an eps or a momentum that cannot be.
  BatchNorm(const char* what, const BatchNormOptions& options, torch::nn::Module& owner);
  // x [B, C, ...] -> the same shape. In training the running numbers move, so that threads may share it in evaluation
  // only; a single value per channel moves the mean alone.
  at::Tensor forward(const at::Tensor& x, bool training) const;
  void reset();  // as made: weight and variance 1, bias and mean 0
  bool is_empty() const { return !weight.defined(); }

  at::Tensor weight, bias;    // [C]
  at::Tensor mean, variance;  // [C], buffers

 private:
  BatchNormOptions options_;
};

}  // namespace fovea
