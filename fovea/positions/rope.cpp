// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/rope.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <utility>

#include "fovea/ops/rotary.h"
#include "fovea/positions/registry.h"

namespace fovea {
namespace {

int64_t checked_width(const PositionOptions& o) {
  FOVEA_CHECK_CONFIG(o.head_width > 0, "position \"rope\": head_width is ", o.head_width, ", wanted at least 2");
  const int64_t width = o.rotary_width == 0 ? o.head_width : o.rotary_width;
  FOVEA_CHECK_CONFIG(width > 0 && width % 2 == 0 && width <= o.head_width, "position \"rope\": rotary_width is ", width,
                     ", wanted an even number up to the head width ", o.head_width);
  return width;
}

// cos for both members of a pair; −sin for the first, sin for the second.
template <int kPairAxis>
std::vector<Angles::Arrange> arrangements() {
  return {[](const Tensor& a) {
            const Tensor c = a.cos();
            return at::stack({c, c}, kPairAxis);
          },
          [](const Tensor& a) {
            const Tensor s = a.sin();
            return at::stack({-s, s}, kPairAxis);
          }};
}

Angles make_angles(const PositionOptions& o, bool interleaved, int64_t width) {
  return Angles(rope_frequencies(width, o.base, o.scaling), rope_amplitude(o.scaling),
                interleaved ? arrangements<-1>() : arrangements<-2>(), o.max_positions);
}

int64_t text_length(const Positions& positions, int64_t T) {
  if (!positions.ids.defined()) return positions.begin() + T;
  return positions.ids.numel() == 0 ? 0 : positions.ids.max().item<int64_t>() + 1;
}

// [heads · D, …] with the pairs of each head regrouped from (a, b) blocks to (b, a) blocks.
Tensor regroup(const Tensor& rows, int64_t heads, int64_t width, at::IntArrayRef pairs) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, heads > 0 && rows.dim() >= 1 && rows.size(0) % heads == 0,
                   "rope: ", rows.size(0), " rows do not split into ", heads, " heads");
  const Tensor by_head = rows.unflatten(0, {heads, rows.size(0) / heads});  // [heads, D, …]
  if (width == 0) width = by_head.size(1);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, width > 0 && width % 2 == 0 && width <= by_head.size(1),
                   "rope: rotary width is ", width, ", wanted an even number up to the head width ", by_head.size(1));
  const Tensor turning = by_head.slice(1, 0, width).unflatten(1, pairs).transpose(1, 2).flatten(1, 2);
  return at::cat({turning, by_head.slice(1, width)}, 1).flatten(0, 1);  // [heads · D, …]
}

}  // namespace

RotaryPositionImpl::RotaryPositionImpl(std::string name, const PositionOptions& options)
    : PositionImpl(std::move(name), options), interleaved_(is_interleaved(options.layout, "halves")) {}

std::pair<Tensor, Tensor> RotaryPositionImpl::rotate(const Tensor& query, const Tensor& key,
                                                     const std::vector<Tensor>& tables) const {
  FOVEA_ASSERT(tables.size() == 2, "tables are from another encoding");
  FOVEA_CHECK(query.size(-1) == options_.head_width && key.size(-1) == options_.head_width, "query has width ",
              query.size(-1), ", key ", key.size(-1), "; the rotary encoding was made for ", options_.head_width);
  FOVEA_CHECK(query.size(2) == key.size(2), "query has ", query.size(2), " tokens, key ", key.size(2),
              "; both turn by the same tables");
  return rotary(query, key, {tables[0], tables[1], interleaved_});
}

RopePositionImpl::RopePositionImpl(const PositionOptions& options)
    : RotaryPositionImpl("rope", options),
      rotary_width_(checked_width(options)),
      angles_(make_angles(options, interleaved_, rotary_width_)) {}

std::vector<Tensor> RopePositionImpl::tables(const Positions& positions, int64_t T,
                                             const at::TensorOptions& like) const {
  const RopeScaling& scaling = options_.scaling;
  const int64_t length = scaling.type == "dynamic" ? text_length(positions, T) : 0;
  auto out = length <= scaling.original_positions
                 ? angles_.rows(positions, T, like)
                 : angles_.rows(positions, T, like,
                                rope_frequencies(rotary_width_, options_.base, scaling,
                                                 length));  // [T, ·, ·] or [B, T, ·, ·]
  for (Tensor& table : out) {
    table = table.flatten(-2);                         // [T, R] or [B, T, R]
    if (table.dim() == 3) table = table.unsqueeze(1);  // [B, 1, T, R]
  }
  return out;
}

Tensor rope::interleaved_to_halves(const Tensor& rows, int64_t heads, int64_t rotary_width) {
  return regroup(rows, heads, rotary_width, {-1, 2});
}
Tensor rope::halves_to_interleaved(const Tensor& rows, int64_t heads, int64_t rotary_width) {
  return regroup(rows, heads, rotary_width, {2, -1});
}

void register_positions_rope(PositionsRegistry& registry) {
  registry.add("rope", {.make = [](auto& options) { return std::make_shared<RopePositionImpl>(options); }});
}

}  // namespace fovea
