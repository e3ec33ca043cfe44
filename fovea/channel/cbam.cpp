// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/cbam.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/rand.h>

#include <cmath>

#include "fovea/base/nearest.h"
#include "fovea/base/probe.h"
#include "fovea/channel/registry.h"
#include "fovea/layers/linear.h"

namespace fovea {

CbamImpl::CbamImpl(const ChannelOptions& options)
    : ChannelAttentionImpl("cbam", options),
      activation_(activation(options.activation.empty() ? "relu" : options.activation)) {
  FOVEA_CHECK_CONFIG(options_.order == "channel" || options_.order == "spatial", "cbam: unknown order \"",
                     options_.order, "\"", suggestion(options_.order, {"channel", "spatial"}));
  if (options_.kernel == 0) options_.kernel = 7;
  const int64_t C = options_.channels, inner = hidden(), k = options_.kernel;
  down = register_module("down", make_linear(C, inner, options_.bias));
  up = register_module("up", make_linear(inner, C, options_.bias));
  spatial = register_parameter("spatial", (at::rand({1, 2, k, k}) * 2 - 1) / (double(k) * std::sqrt(2.0)));
}

Tensor CbamImpl::weigh_channels(const Tensor& x) const {
  const auto score = [&](const Tensor& z) { return linear(up, activation_(linear(down, z))); };  // [B, C]
  // max over one flat axis: of equal numbers one gets the gradient, as in PyTorch's max pooling.
  const Tensor largest = std::get<0>(x.flatten(2).max(2));
  const Tensor weights = (score(x.mean({2, 3})) + score(largest)).sigmoid();  // [B, C]
  Probe::emit("channel_weights", weights);
  return x * weights.unsqueeze(2).unsqueeze(3);
}

Tensor CbamImpl::weigh_places(const Tensor& x) const {
  const Tensor both = at::cat({x.mean(1, true), std::get<0>(x.max(1, true))}, 1);          // [B, 2, Y, X]
  const Tensor weights = at::conv2d(both, spatial, {}, 1, options_.kernel / 2).sigmoid();  // [B, 1, Y, X]
  Probe::emit("spatial_weights", weights.squeeze(1));
  return x * weights;
}

int64_t CbamImpl::multiply_adds(int64_t Y, int64_t X) const {
  return 2 * (down->weight.numel() + up->weight.numel()) + spatial.numel() * Y * X;
}

Tensor CbamImpl::attend(const Tensor& x) const {
  return options_.order == "channel" ? weigh_places(weigh_channels(x)) : weigh_channels(weigh_places(x));
}

void register_channel_cbam(ChannelRegistry& registry) {
  registry.add("cbam", {.make = [](auto& options) { return std::make_shared<CbamImpl>(options); }});
}

}  // namespace fovea
