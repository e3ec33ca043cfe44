// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/grid_2d.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "fovea/positions/registry.h"

namespace fovea {
namespace {

void check_cells(const char* name, const char* what, int64_t width, const std::vector<int64_t>& grid) {
  FOVEA_CHECK_CONFIG(width > 0 && width % 4 == 0, "position \"", name, "\": ", what, " is ", width,
                     ", wanted a multiple of 4: pairs for rows and as many for columns");
  FOVEA_CHECK_CONFIG(grid.empty() || (grid.size() == 2 && grid[0] > 0 && grid[1] > 0), "position \"", name,
                     "\": grid is ", at::IntArrayRef(grid), ", wanted rows and columns of at least 1 each, or none");
}

// Centres of `count` cells as places on an axis of `onto`.
Tensor cell_centres(int64_t count, int64_t onto, const at::TensorOptions& options) {
  return (at::arange(count, options) + 0.5) * (double(onto) / double(std::max<int64_t>(count, 1))) - 0.5;
}

int64_t tokens_before(const Positions& positions) { return positions.grid ? positions.grid->before : 0; }

// [..., T, n] of each axis: row · θ and column · θ.
std::array<Tensor, 2> cell_angles(const Tensor& cells, const Tensor& frequencies) {
  const Tensor theta = frequencies.to(cells.device());
  return {cells.select(-1, 0).unsqueeze(-1) * theta, cells.select(-1, 1).unsqueeze(-1) * theta};
}

at::ScalarType table_type(const at::TensorOptions& like) {
  return c10::typeMetaToScalarType(like.dtype()) == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows of zeros in front, on the axis of tokens.
Tensor behind(const Tensor& table, int64_t before, double fill) {
  return before > 0 ? at::constant_pad_nd(table, {0, 0, before, 0}, fill) : table;
}

}  // namespace

Tensor cell_coordinates(const Positions& positions, int64_t T, const std::vector<int64_t>& onto, at::Device device) {
  const auto options = at::TensorOptions(at::kDouble).device(device);
  if (!positions.grid) {
    const int64_t first = positions.begin();
    const Tensor columns = positions.ids.defined() ? positions.ids.to(options) : at::arange(first, first + T, options);
    return at::stack({at::zeros_like(columns), columns}, -1);
  }
  const auto& [R, C, before] = *positions.grid;
  const Tensor rows = cell_centres(R, onto.empty() ? R : onto[0], options).unsqueeze(1).expand({R, C});
  const Tensor columns = cell_centres(C, onto.empty() ? C : onto[1], options).expand({R, C});
  return at::stack({rows, columns}, -1).flatten(0, 1);
}

Sinusoidal2dPositionImpl::Sinusoidal2dPositionImpl(const PositionOptions& options)
    : PositionImpl("sinusoidal_2d", options), interleaved_(is_interleaved(options.layout, "interleaved")) {
  check_cells("sinusoidal_2d", "width", options.width, options.grid);
  frequencies_ = rope_frequencies(options.width / 2, options.base);
}

Tensor Sinusoidal2dPositionImpl::embed(const Tensor& x, const Positions& positions) const {
  check_fits(positions, x.size(1));
  std::vector<Tensor> halves;
  for (const Tensor& a : cell_angles(cell_coordinates(positions, x.size(1), options_.grid, x.device()), frequencies_))
    halves.push_back(waves(interleaved_)(a));
  const Tensor waves = behind(at::cat(halves, -1), tokens_before(positions), 0);  // [T, C] or [B, T, C]
  return (x + waves.to(table_type(x.options()))).to(x.scalar_type());
}

Rope2dPositionImpl::Rope2dPositionImpl(const PositionOptions& options) : RotaryPositionImpl("rope_2d", options) {
  check_cells("rope_2d", "head_width", options.head_width, options.grid);
  frequencies_ = rope_frequencies(options.head_width / 2, options.base);
}

std::vector<Tensor> Rope2dPositionImpl::tables(const Positions& positions, int64_t T,
                                               const at::TensorOptions& like) const {
  const auto [by_row, by_column] =
      cell_angles(cell_coordinates(positions, T, options_.grid, like.device()), frequencies_);
  const Tensor a = at::cat({by_row, by_column}, -1);  // [..., T, D/2]
  const int64_t axis = interleaved_ ? -1 : -2, before = tokens_before(positions);
  const Tensor c = a.cos(), s = a.sin();
  std::vector<Tensor> out{behind(at::stack({c, c}, axis).flatten(-2), before, 1),
                          behind(at::stack({-s, s}, axis).flatten(-2), before, 0)};  // [T, D] or [B, T, D]
  for (Tensor& table : out) {
    table = table.to(table_type(like));
    if (table.dim() == 3) table = table.unsqueeze(1);  // [B, 1, T, D]
  }
  return out;
}

void register_positions_grid_2d(PositionsRegistry& registry) {
  registry.add("sinusoidal_2d",
               {.make = [](auto& options) { return std::make_shared<Sinusoidal2dPositionImpl>(options); }});
  registry.add("rope_2d", {.make = [](auto& options) { return std::make_shared<Rope2dPositionImpl>(options); }});
}

}  // namespace fovea
