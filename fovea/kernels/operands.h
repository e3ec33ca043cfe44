// What the products of attention read, in the layouts that they want it in: f32, or pairs of bf16; and the memory that
// it lies in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "fovea/kernels/isa.h"
#include "fovea/kernels/tile_plan.h"

namespace fovea {

inline int64_t tile_count(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

// Aligned memory that a thread keeps from call to call, so that the system need not hand out and clear pages each time.
class Scratch {
 public:
  // Memory of the calling thread. Pieces stay valid until the Scratch ends; only one may live per thread.
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  float* take(int64_t count);  // 64-byte aligned, not cleared
  Pair* take_pairs(int64_t count) { return reinterpret_cast<Pair*>(take(count)); }

 private:
  std::vector<std::unique_ptr<float[]>> more_;  // what did not fit
  int64_t used_ = 0, wanted_ = 0;
};

bool finite(const Isa& isa, const Matrix& rows, int64_t count, int64_t width);

// A tile of queries, or of what has their shape, as a factor of products: its columns [·][query], and where asked for
// its rows [query][pitch]; both as f32, scaled, or as pairs along the axis of queries or of columns, with the scale
// left to the product.
class QueryTile {
 public:
  QueryTile(const Isa& isa, int64_t width, bool paired, bool with_rows, Scratch& scratch);
  void open(const Matrix& from, int64_t queries, float scale);
  // sums[key][·] += Σ_query tile[key][query] rows[query][·], sums `pitch` apart
  void sum_over_queries(const TilePlan::Step& step, const float* tile, float* sums) const;

  bool paired() const { return column_pairs_ != nullptr; }
  int64_t pitch() const { return pitch_; }
  const float* columns() const { return columns_; }
  const Pair* column_pairs() const { return column_pairs_; }
  float factor() const { return factor_; }

 private:
  const Isa& isa_;
  int64_t width_, pitch_;
  bool with_rows_;
  float factor_ = 1;
  float *columns_, *rows_;
  Pair *column_pairs_ = nullptr, *row_pairs_ = nullptr, *rounded_ = nullptr;
};

// How rows of keys and values are laid out: as f32, or bf16 in pairs along the axis that their product sums over.
enum class Packing : uint8_t { kNumbers, kPairsOfColumns, kPairsOfKeys };

// The rows of a key/value head, close together: read in place where they are so already, else packed tile by tile when
// first asked for. A tile of scores is [key][query].
class PackedRows {
 public:
  PackedRows(const Isa& isa, Packing packing, int64_t width, int64_t most_rows, Scratch& scratch);
  void open(const Matrix& rows, int64_t count);
  const float* tile(int64_t index);
  int64_t pitch() const { return width_; }
  bool finite(int64_t index);
  // A step that begins or ends inside a pair also multiplies, by 0, a row that it hides.
  bool touches_hidden(const TilePlan::Step& step) const;

  // tile[key][query] = rows[key] · columns[·][query]
  void multiply(const TilePlan::Step& step, const QueryTile& columns, float* tile);
  // sums[·][query] += Σ_key rows[key][·] tile[key][query]; of pairs, the row before the tile is to hold zeros.
  void sum_over_keys(const TilePlan::Step& step, float* tile, float* sums);

 private:
  const Pair* pairs(int64_t index);
  int64_t lanes(const TilePlan::Step& step) const { return tile_count(step.queries, isa_.lanes) * isa_.lanes; }
  Matrix matrix(int64_t index) const { return rows_.at(index * kTileKeys * rows_.row); }
  int64_t rows_of(int64_t index) const { return std::min(kTileKeys, count_ - index * kTileKeys); }

  const Isa& isa_;
  Packing packing_;
  int64_t width_, count_ = 0;
  Matrix rows_;
  float* packed_;
  Pair* rounded_ = nullptr;
  std::vector<uint8_t> is_packed_, is_finite_;
};

}  // namespace fovea
