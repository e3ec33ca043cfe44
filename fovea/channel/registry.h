// What a file in channel/ registers: a module over feature maps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fovea/base/registry.h"
#include "fovea/channel/channel_attention.h"

namespace fovea {

struct ChannelEntry {
  // Checks what it reads of the options (throws Error(kConfig)).
  std::function<ChannelAttention(const ChannelOptions& options)> make;
};

struct ChannelRegistry : Registry<ChannelEntry> {
  ChannelRegistry() : Registry("channel attention") {}
};

const ChannelRegistry& channel_registry();

}  // namespace fovea
