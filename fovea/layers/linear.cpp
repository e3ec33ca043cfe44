// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/linear.h"

#include <ATen/ops/linear.h>

namespace fovea {

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

}  // namespace fovea
