// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/eca.h"

#include <ATen/ops/conv1d.h>
#include <ATen/ops/rand.h>

#include <cmath>

#include "fovea/base/probe.h"
#include "fovea/channel/registry.h"

namespace fovea {

int64_t EcaImpl::kernel_for(int64_t channels) {
  const int64_t t = int64_t((std::log2(double(channels)) + 1) / 2);
  return t % 2 == 1 ? t : t + 1;
}

EcaImpl::EcaImpl(const ChannelOptions& options) : ChannelAttentionImpl("eca", options) {
  if (options_.kernel == 0) options_.kernel = kernel_for(options_.channels);
  weight =
      register_parameter("weight", (at::rand({1, 1, options_.kernel}) * 2 - 1) / std::sqrt(double(options_.kernel)));
}

int64_t EcaImpl::multiply_adds(int64_t, int64_t) const { return options_.channels * options_.kernel; }

Tensor EcaImpl::attend(const Tensor& x) const {
  const Tensor means = x.mean({2, 3}).unsqueeze(1);                                                   // [B, 1, C]
  const Tensor weights = at::conv1d(means, weight, {}, 1, options_.kernel / 2).squeeze(1).sigmoid();  // [B, C]
  Probe::emit("weights", weights);
  return x * weights.unsqueeze(2).unsqueeze(3);
}

void register_channel_eca(ChannelRegistry& registry) {
  registry.add("eca", {.make = [](auto& options) { return std::make_shared<EcaImpl>(options); }});
}

}  // namespace fovea
