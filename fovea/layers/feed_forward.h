// The position-wise part of a block.
//
//   plain   down(f(up(x)))              (Vaswani et al. 2017, equation 2)
//   gated   down(f(gate(x)) ∘ up(x))    (Shazeer 2020, "GLU variants", equations 5 and 6)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include <string>

#include "fovea/layers/activation.h"
#include "fovea/layers/module.h"

namespace fovea {

struct FeedForwardOptions {
  int64_t width = 0;
  int64_t hidden = 0;  // 0: 4 · width
  // A name from activation.h, or a gated form: "swiglu" (silu), "geglu" (gelu), "geglu_tanh", "reglu" (relu), "glu"
  // (sigmoid).
  std::string activation = "relu";
  bool gated = false;  // implied by the gated names
  bool bias = true;
  double dropout = 0;  // on the hidden layer
};

class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(FeedForwardOptions options);
  // [..., C] -> [..., C]
  at::Tensor forward(const at::Tensor& x) const;
  const FeedForwardOptions& options() const { return options_; }

  torch::nn::Linear gate{nullptr};  // C -> hidden; gated only
  torch::nn::Linear up{nullptr};    // C -> hidden
  torch::nn::Linear down{nullptr};  // hidden -> C

 private:
  FeedForwardOptions options_;
  Activation activation_;
};
FOVEA_MODULE(FeedForward, FeedForwardOptions);

}  // namespace fovea
