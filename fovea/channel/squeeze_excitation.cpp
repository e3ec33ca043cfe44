// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/squeeze_excitation.h"

#include "fovea/base/probe.h"
#include "fovea/channel/registry.h"
#include "fovea/layers/linear.h"

namespace fovea {

SqueezeExcitationImpl::SqueezeExcitationImpl(const ChannelOptions& options)
    : ChannelAttentionImpl("squeeze_excitation", options),
      activation_(activation(options.activation.empty() ? "relu" : options.activation)) {
  const int64_t C = options.channels, inner = hidden();
  down = register_module("down", make_linear(C, inner, options.bias));
  up = register_module("up", make_linear(inner, C, options.bias));
}

int64_t SqueezeExcitationImpl::multiply_adds(int64_t, int64_t) const {
  return down->weight.numel() + up->weight.numel();
}

Tensor SqueezeExcitationImpl::attend(const Tensor& x) const {
  const Tensor weights = linear(up, activation_(linear(down, x.mean({2, 3})))).sigmoid();  // [B, C]
  Probe::emit("weights", weights);
  return x * weights.unsqueeze(2).unsqueeze(3);
}

void register_channel_squeeze_excitation(ChannelRegistry& registry) {
  registry.add("squeeze_excitation",
               {.make = [](auto& options) { return std::make_shared<SqueezeExcitationImpl>(options); }});
}

}  // namespace fovea
