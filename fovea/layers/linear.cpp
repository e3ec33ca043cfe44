// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/linear.h"

#include <ATen/ops/empty.h>

#include "fovea/base/check.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/fresh.h"

namespace fovea {

torch::nn::Linear make_linear(int64_t in, int64_t out, bool bias) {
  if (!Undrawn::here()) return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
  torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(bias));  // LibTorch's constructor draws what it makes
  layer->options.in_features(in).out_features(out);
  layer->weight.set_data(at::empty({out, in}));
  if (bias) layer->bias.set_data(at::empty({out}));
  return layer;
}

at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  const at::Tensor& weight = layer->weight;
  FOVEA_CHECK(x.dim() > 0 && x.size(-1) == weight.size(1) && x.scalar_type() == weight.scalar_type(), "x is ",
              x.sizes(), " ", x.scalar_type(), ", wanted [..., ", weight.size(1), "] ", weight.scalar_type());
  return affine(x, layer->weight, layer->bias);
}

}  // namespace fovea
