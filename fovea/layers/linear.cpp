// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/linear.h"

#include "fovea/ops/affine.h"

namespace fovea {

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return affine(x, layer->weight, layer->bias);
}

}  // namespace fovea
