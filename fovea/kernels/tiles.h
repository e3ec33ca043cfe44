// What the forward and backward loops share: scratch memory, rows of keys and values, and one tile of scores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

 private:
  std::vector<std::unique_ptr<float[]>> more_;  // what did not fit
  int64_t used_ = 0, wanted_ = 0;
};

// The rows of a key/value head as f32, close together: read in place where they are so already, else packed tile by
// tile when first asked for.
class PackedRows {
 public:
  PackedRows(const Isa& isa, int64_t width, int64_t most_rows, Scratch& scratch);
  void open(const Matrix& rows, int64_t count);
  const float* tile(int64_t index);
  int64_t pitch() const { return width_; }
  bool finite(int64_t index);

 private:
  const Isa& isa_;
  int64_t width_, count_ = 0;
  Matrix rows_;
  float* packed_;
  std::vector<uint8_t> is_packed_, is_finite_;
};

// The scores of one tile after everything but the softmax.
class ScoreTiles {
 public:
  ScoreTiles(const AttentionTask& task, Scratch& scratch, bool backward);
  // The query tile at q0: `rows` rows of head h.
  void open(const Sequence& sequence, int64_t h, int64_t q0, int64_t rows);
  // values[k − step.first][query]; keys: the rows of the whole tile.
  float* compute(const TilePlan& plan, const TilePlan::Step& step, const float* keys);
  // Gradients of those scores -> of scale · q·k; those of visitors' parameters are added to own[visitor][parameter].
  void backward(float* gradients, const TilePlan::Step& step, const std::vector<std::vector<float*>>& own);

  const float* scaled_rows() const { return rows_; }  // [kTileQueries][pitch], backward only
  int64_t row_pitch() const { return row_pitch_; }
  // Of visitors that read the query: [rows][D]; or nullptr.
  const float* query_gradient() const { return query_gradient_; }
  int64_t lanes() const;  // queries in whole registers

 private:
  ScoreTile tile(float* values, const TilePlan::Step& step) const;

  const AttentionTask& task_;
  const Isa& isa_;
  const Sequence* sequence_ = nullptr;
  int64_t h_ = 0, q0_ = 0, queries_ = 0, row_pitch_;
  bool backward_;
  float *rows_, *transposed_, *scores_, *capped_ = nullptr, *unscaled_ = nullptr, *query_gradient_ = nullptr;
  std::vector<float*> before_;  // per visitor that needs it
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Where a running maximum starts: finite, so that a row of −∞ leaves weights of 0 and no NaN.
inline constexpr float kLowest = std::numeric_limits<float>::lowest();

// The three products that attention consists of. A tile is [key][query]; `lanes` are its queries in whole registers.
//
// tile[key][query] = rows[key] · columns[·][query]
void multiply(const Isa& isa, const float* rows, int64_t keys, int64_t width, const float* columns, int64_t lanes,
              float* tile);
// sums[·][query] += Σ_key rows[key][·] tile[key][query]
void sum_over_keys(const Isa& isa, const float* rows, int64_t keys, int64_t width, const float* tile, int64_t lanes,
                   float* sums);
// sums[key][·] += Σ_query tile[key][query] rows[query][·], rows `pitch` apart
void sum_over_queries(const Isa& isa, const float* tile, int64_t keys, int64_t queries, const float* rows,
                      int64_t pitch, float* sums);

inline int64_t tile_count(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

}  // namespace fovea
