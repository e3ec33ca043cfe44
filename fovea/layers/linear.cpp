// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/linear.h"

#include "fovea/ops/linear.h"

namespace fovea {

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return linear(x, layer->weight, layer->bias);
}

}  // namespace fovea
