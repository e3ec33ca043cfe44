// What the forward and backward loops share: scratch memory, rows of keys and values, and one tile of scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "fovea/kernels/attention.h"

namespace fovea {

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
  void sum_over_queries(const float* tile, int64_t keys, float* sums) const;

  bool paired() const { return column_pairs_ != nullptr; }
  int64_t pitch() const { return pitch_; }
  const float* columns() const { return columns_; }
  const Pair* column_pairs() const { return column_pairs_; }
  float factor() const { return factor_; }

 private:
  const Isa& isa_;
  int64_t width_, pitch_, queries_ = 0;
  bool with_rows_;
  float factor_ = 1;
  float *columns_, *rows_;
  Pair *column_pairs_ = nullptr, *row_pairs_ = nullptr, *rounded_ = nullptr;
};

// How rows of keys and values are laid out: as f32, or bf16 in pairs along the axis that their product sums over.
enum class Packing : uint8_t { kNumbers, kPairsOfColumns, kPairsOfKeys };

// The rows of a key/value head, close together: read in place where they are so already, else packed tile by tile when
// first asked for. A tile of scores is [key][query]; `lanes` are its queries in whole registers.
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
  void multiply(const TilePlan::Step& step, const QueryTile& columns, int64_t lanes, float* tile);
  // sums[·][query] += Σ_key rows[key][·] tile[key][query]; of pairs, the row before the tile is to hold zeros.
  void sum_over_keys(const TilePlan::Step& step, float* tile, int64_t lanes, float* sums);

 private:
  const Pair* pairs(int64_t index);
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

// The scores of one tile after everything but the softmax.
class ScoreTiles {
 public:
  ScoreTiles(const AttentionTask& task, Scratch& scratch, bool backward);
  // The query tile at q0: `rows` rows of head h.
  void open(const Sequence& sequence, int64_t h, int64_t q0, int64_t rows);
  // values[k − step.first][query], behind a row of zeros.
  float* compute(const TilePlan& plan, const TilePlan::Step& step, PackedRows& keys);
  // Gradients of those scores -> of scale · q·k; those of visitors' parameters are added to own[visitor][parameter].
  void backward(float* gradients, const TilePlan::Step& step, const std::vector<std::vector<float*>>& own);

  const QueryTile& query() const { return query_; }  // scaled; with rows backward only
  // Of visitors that read the query: [rows][D]; or nullptr.
  const float* query_gradient() const { return query_gradient_; }
  int64_t lanes() const;  // queries in whole registers

 private:
  ScoreTile tile(float* values, const TilePlan::Step& step) const;

  const AttentionTask& task_;
  const Isa& isa_;
  const Sequence* sequence_ = nullptr;
  int64_t h_ = 0, q0_ = 0, queries_ = 0;
  QueryTile query_;
  float *scores_, *capped_ = nullptr, *unscaled_ = nullptr, *query_gradient_ = nullptr;
  std::vector<float*> before_;  // per visitor that needs it
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Where a running maximum starts: finite, so that a row of −∞ leaves weights of 0 and no NaN.
inline constexpr float kLowest = std::numeric_limits<float>::lowest();

inline int64_t tile_count(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

}  // namespace fovea
