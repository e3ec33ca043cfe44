// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/sinusoidal.h"

#include "fovea/positions/registry.h"

namespace fovea {
namespace {

Angles make_waves(const PositionOptions& o) {
  FOVEA_CHECK_CONFIG(o.width > 0 && o.width % 2 == 0, "position \"sinusoidal\": width is ", o.width,
                     ", wanted an even number");
  return Angles(rope_frequencies(o.width, o.base), 1, {waves(is_interleaved(o.layout, "interleaved"))},
                o.max_positions);
}

}  // namespace

SinusoidalPositionImpl::SinusoidalPositionImpl(const PositionOptions& options)
    : PositionImpl("sinusoidal", options), waves_(make_waves(options)) {}

Tensor SinusoidalPositionImpl::embed(const Tensor& x, const Positions& positions) const {
  check_fits(positions, x.size(1));
  return (x + waves_.rows(positions, x.size(1), x.options())[0]).to(x.scalar_type());
}

void register_positions_sinusoidal(PositionsRegistry& registry) {
  registry.add("sinusoidal", {.make = [](auto& options) { return std::make_shared<SinusoidalPositionImpl>(options); }});
}

}  // namespace fovea
