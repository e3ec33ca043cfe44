// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/channel_attention.h"

#include "fovea/base/probe.h"
#include "fovea/base/size.h"
#include "fovea/channel/registry.h"

namespace fovea {

void register_all_channel(ChannelRegistry& registry);

const ChannelRegistry& channel_registry() {
  static const ChannelRegistry registry = [] {
    ChannelRegistry r;
    register_all_channel(r);
    return r;
  }();
  return registry;
}

ChannelAttention make_channel_attention(const std::string& name, const ChannelOptions& options) {
  return channel_registry().at(name).make(options);
}

void ChannelOptions::visit(FieldVisitor& v) {
  v.field("channels", channels, "of the feature maps");
  visit_settings(v);
}

void ChannelOptions::visit_settings(FieldVisitor& v) {
  v.field("reduction", reduction, "channels per hidden channel");
  v.field("least_hidden", least_hidden, "hidden channels at least");
  v.field("bias", bias, "of the hidden layer and what follows it");
  v.field("activation", activation, "of the hidden layer; empty: as in the paper");
  v.field("kernel", kernel, "eca: over channels; cbam: over places; 0: as in the paper");
  v.field("order", order, "cbam: \"channel\" or \"spatial\" comes first");
  v.field("norm", norm, "coordinate: \"batch\" or \"none\"");
  v.field("eps", eps, "of the norm");
  v.field("momentum", momentum, "of the norm's running mean and variance");
}

ChannelAttentionImpl::ChannelAttentionImpl(std::string name, ChannelOptions options)
    : options_(std::move(options)), name_(std::move(name)) {
  FOVEA_CHECK_CONFIG(options_.channels > 0, name_, ": channels is ", options_.channels, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.kernel == 0 || (options_.kernel > 0 && options_.kernel % 2 == 1), name_, ": kernel is ",
                     options_.kernel, ", wanted an odd number, or 0");
  check_parameters(name_.c_str(), double(options_.kernel) * double(options_.kernel));
}

int64_t ChannelAttentionImpl::hidden() const {
  const auto& o = options_;
  FOVEA_CHECK_CONFIG(o.reduction > 0 && o.reduction <= o.channels, name_, ": reduction is ", o.reduction,
                     ", wanted 1 to the ", o.channels, " channels");
  FOVEA_CHECK_CONFIG(o.least_hidden > 0, name_, ": least_hidden is ", o.least_hidden, ", wanted at least 1");
  const int64_t hidden = std::max(o.channels / o.reduction, o.least_hidden);
  check_parameters(name_.c_str(), 2 * double(hidden) * double(o.channels));
  return hidden;
}

Tensor ChannelAttentionImpl::forward(const Tensor& x) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.dim() == 4 && x.size(1) == options_.channels, name_, ": x is ", x.sizes(),
                   ", wanted [B, C, Y, X] with C = ", options_.channels);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.size(2) > 0 && x.size(3) > 0, name_, ": x is ", x.sizes(),
                   ", wanted at least one place");
  const auto own = parameters();
  FOVEA_CHECK_KIND(ErrorKind::kArgument, own.empty() || own[0].scalar_type() == x.scalar_type(), name_, ": x is ",
                   x.scalar_type(), ", wanted ", own[0].scalar_type());
  const ProbeScope scope(name_.c_str());
  return attend(x);
}

}  // namespace fovea
