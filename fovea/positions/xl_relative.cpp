// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/xl_relative.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/base/size.h"
#include "fovea/ops/fresh.h"
#include "fovea/positions/registry.h"
#include "fovea/scores/relative.h"

namespace fovea {
namespace {

Angles xl_waves(const PositionOptions& o) {
  FOVEA_CHECK_CONFIG(o.width > 0 && o.width % 2 == 0, "position \"xl_relative\": width is ", o.width,
                     ", wanted an even number");
  return Angles(rope_frequencies(o.width, o.base), 1, {waves(is_interleaved(o.layout, "halves"))}, o.max_positions);
}

}  // namespace

XlRelativePositionImpl::XlRelativePositionImpl(const PositionOptions& options)
    : PositionImpl("xl_relative", options), waves_(xl_waves(options)) {
  const int64_t H = options.heads, D = options.head_width;
  FOVEA_CHECK_CONFIG(H > 0 && D > 0, "position \"xl_relative\": heads is ", H, ", head_width ", D,
                     ", wanted at least 1 of each");
  check_parameters("position \"xl_relative\"", double(H) * double(D) * double(options.width));
  weight = register_parameter("weight", fresh_weight({H * D, options.width}, 0.02));
  content_bias = register_parameter("content_bias", fresh_weight({H, D}, 0.02));
  distance_bias = register_parameter("distance_bias", fresh_weight({H, D}, 0.02));
}

std::pair<Tensor, Tensor> XlRelativePositionImpl::rotate(const Tensor& query, const Tensor& key,
                                                         const std::vector<Tensor>&) const {
  return {query + content_bias.unsqueeze(1).to(query.scalar_type()), key};
}

// W R of the distances i − j = from, from − 1, …, to: [N, H, D].
Tensor XlRelativePositionImpl::projected(int64_t from, int64_t to) const {
  const auto distances = at::arange(from, to - 1, -1, weight.options().dtype(at::kLong).requires_grad(false));
  const Tensor R = waves_.rows(Positions(distances), distances.size(0), weight.options())[0];  // [N, C], f32 or f64
  return at::matmul(R, weight.to(R.scalar_type()).t()).unflatten(1, {options_.heads, options_.head_width});
}

Score XlRelativePositionImpl::score(int64_t T, int64_t S) const {
  T = std::max<int64_t>(T, 1), S = std::max<int64_t>(S, 1);
  const int64_t farthest = std::max(T, S) - 1, reach = options_.reach;
  Tensor table;  // [2 · reach + 1, H, D], rows by k − q
  if (reach > 0 && reach < farthest) {
    table = projected(reach, -reach);
  } else {  // only distances that occur: a step of decoding has no later keys
    table = at::constant_pad_nd(projected(S - 1, 1 - T), {0, 0, 0, 0, farthest - (S - 1), farthest - (T - 1)});
  }
  return scores::relative(table, (distance_bias - content_bias).to(table.scalar_type()));
}

void register_positions_xl_relative(PositionsRegistry& registry) {
  registry.add("xl_relative",
               {.make = [](auto& options) { return std::make_shared<XlRelativePositionImpl>(options); }});
}

}  // namespace fovea
