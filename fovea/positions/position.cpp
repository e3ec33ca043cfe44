// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/position.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>

#include "fovea/positions/registry.h"

namespace fovea {

void register_all_positions(PositionsRegistry& registry);

const PositionsRegistry& positions_registry() {
  static const PositionsRegistry registry = [] {
    PositionsRegistry r;
    register_all_positions(r);
    return r;
  }();
  return registry;
}

Position make_position(const std::string& name, const PositionOptions& options) {
  return positions_registry().at(name).make(options);
}

bool CellGrid::has(int64_t T) const {
  if (rows < 0 || columns < 0 || before < 0 || before > T) return false;
  const int64_t cells = T - before;
  if (rows == 0 || columns == 0) return cells == 0;
  return cells % rows == 0 && cells / rows == columns;  // a product could overflow
}

Positions Positions::after_padding(const Tensor& start, int64_t T, int64_t past) {
  const Tensor slots = at::arange(past, past + T, start.options());
  return Positions((slots - start.unsqueeze(1)).clamp_min(0));  // [B, T]
}

void PositionOptions::visit(FieldVisitor& visitor) {
  visitor.field("max_positions", max_positions, "longest sequence; 0: no limit");
  visitor.field("base", base, "rope and sinusoidal: ratio of the slowest wavelength to the fastest");
  visitor.field("layout", layout, "\"halves\" or \"interleaved\"; empty: as usual for the encoding");
  visitor.field("rotary_width", rotary_width, "rope: channels of a head that turn; 0: all");
  visit_section(visitor, "scaling", scaling);
  visitor.field("offset", offset, "learned: row of position 0");
  visitor.field("buckets", buckets, "t5_bias: rows of the table");
  visitor.field("max_distance", max_distance, "t5_bias: distances from here on share a bucket");
  visitor.field("bidirectional", bidirectional, "t5_bias: buckets for later keys too");
  visitor.field("learned_slopes", learned_slopes, "alibi: its slopes are parameters");
  visitor.field("reach", reach, "relative_keys, xl_relative: distances from here on share a vector; 0: as usual");
  visitor.field("grid", grid, "sinusoidal_2d, rope_2d: rows and columns that cells of another grid are laid on");
}

PositionImpl::PositionImpl(std::string name, PositionOptions options)
    : options_(std::move(options)), name_(std::move(name)) {
  FOVEA_CHECK_CONFIG(options_.max_positions >= 0, "position \"", name_, "\": max_positions is ", options_.max_positions,
                     ", wanted at least 0");
  FOVEA_CHECK_CONFIG(options_.reach >= 0, "position \"", name_, "\": reach is ", options_.reach, ", wanted at least 0");
}

Tensor PositionImpl::embed(const Tensor& x, const Positions&) const { return x; }
std::pair<Tensor, Tensor> PositionImpl::rotate(const Tensor& query, const Tensor& key,
                                               const std::vector<Tensor>&) const {
  return {query, key};
}
Score PositionImpl::score(int64_t, int64_t) const { return {}; }
std::vector<Tensor> PositionImpl::tables(const Positions&, int64_t, const at::TensorOptions&) const { return {}; }

PositionPass PositionImpl::prepare(const Positions& positions, int64_t T, int64_t S,
                                   const at::TensorOptions& like) const {
  check_fits(positions, T);
  return {.encoding = this, .tables = tables(positions, T, like), .score = score(T, S)};
}

std::pair<Tensor, Tensor> PositionImpl::rotate(const Tensor& query, const Tensor& key,
                                               const Positions& positions) const {
  return rotate(query, key, tables(positions, query.size(2), query.options()));
}

void PositionImpl::check_fits(const Positions& positions, int64_t T) const {
  const int64_t limit = max_positions();
  int64_t first = positions.begin(), last = first + T - 1;
  if (const auto& grid = positions.grid)
    FOVEA_CHECK_KIND(ErrorKind::kArgument, grid->has(T), "positions: a grid of ", grid->rows, " x ", grid->columns,
                     " cells behind ", grid->before, " tokens, wanted T = ", T, " in all");
  if (positions.ids.defined()) {
    const Tensor& ids = positions.ids;
    FOVEA_CHECK_KIND(
        ErrorKind::kArgument, ids.scalar_type() == at::kLong && (ids.dim() == 1 || ids.dim() == 2) && ids.size(-1) == T,
        "positions: ids are ", ids.scalar_type(), " ", ids.sizes(), ", wanted Long [T] or [B, T] with T = ", T);
    if (limit == kNoLimit || ids.numel() == 0) return;
    const auto [least, most] = at::aminmax(ids);
    first = least.item<int64_t>(), last = most.item<int64_t>();
  }
  FOVEA_CHECK_KIND(ErrorKind::kArgument, first >= 0 || T == 0, "positions: position ", first, ", wanted at least 0");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, last < limit, "positions: a sequence of ", last + 1,
                   " tokens does not fit the ", limit, " positions of the model (\"", name_,
                   "\"); shorten the input, or train a model with max_positions >= ", last + 1);
}

}  // namespace fovea
