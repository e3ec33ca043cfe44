// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/linear.h"

#include "fovea/base/check.h"
#include "fovea/ops/affine.h"

namespace fovea {

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  const at::Tensor& weight = layer->weight;
  FOVEA_CHECK(x.dim() > 0 && x.size(-1) == weight.size(1) && x.scalar_type() == weight.scalar_type(), "x is ",
              x.sizes(), " ", x.scalar_type(), ", wanted [..., ", weight.size(1), "] ", weight.scalar_type());
  return affine(x, layer->weight, layer->bias);
}

}  // namespace fovea
