// SPDX-License-Identifier: Apache-2.0
#include "fovea/channel/coordinate.h"

#include <ATen/ops/cat.h>

#include "fovea/base/nearest.h"
#include "fovea/base/probe.h"
#include "fovea/channel/registry.h"
#include "fovea/layers/linear.h"

namespace fovea {

CoordinateAttentionImpl::CoordinateAttentionImpl(const ChannelOptions& options)
    : ChannelAttentionImpl("coordinate", options),
      activation_(activation(options.activation.empty() ? "hard_swish" : options.activation)) {
  FOVEA_CHECK_CONFIG(options.norm == "batch" || options.norm == "none", "coordinate: unknown norm \"", options.norm,
                     "\"", suggestion(options.norm, {"batch", "none"}));
  const int64_t C = options.channels, inner = hidden();
  const auto layer = [&](int64_t from, int64_t to) { return make_linear(from, to, options.bias); };
  down = register_module("down", layer(C, inner));
  if (options.norm == "batch")
    norm = BatchNorm("coordinate", {.width = inner, .eps = options.eps, .momentum = options.momentum}, *this);
  rows = register_module("rows", layer(inner, C));
  columns = register_module("columns", layer(inner, C));
}

int64_t CoordinateAttentionImpl::multiply_adds(int64_t Y, int64_t X) const {
  return (Y + X) * down->weight.numel() + Y * rows->weight.numel() + X * columns->weight.numel();
}

Tensor CoordinateAttentionImpl::attend(const Tensor& x) const {
  const int64_t Y = x.size(2);
  const Tensor means = at::cat({x.mean(3), x.mean(2)}, 2).transpose(1, 2);  // [B, Y + X, C]
  Tensor f = linear(down, means);                                           // [B, Y + X, hidden]
  if (!norm.is_empty()) f = norm.forward(f.transpose(1, 2), is_training()).transpose(1, 2);
  f = activation_(f);
  const Tensor row = linear(rows, f.slice(1, 0, Y)).sigmoid().transpose(1, 2);     // [B, C, Y]
  const Tensor column = linear(columns, f.slice(1, Y)).sigmoid().transpose(1, 2);  // [B, C, X]
  Probe::emit("row_weights", row);
  Probe::emit("column_weights", column);
  return x * row.unsqueeze(3) * column.unsqueeze(2);
}

void register_channel_coordinate(ChannelRegistry& registry) {
  registry.add("coordinate",
               {.make = [](auto& options) { return std::make_shared<CoordinateAttentionImpl>(options); }});
}

}  // namespace fovea
