// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/operands.h"

#include "fovea/base/check.h"

namespace fovea {
namespace {

struct ThreadMemory {
  std::unique_ptr<float[]> block;
  int64_t size = 0;
  bool busy = false;
};

ThreadMemory& thread_memory() {
  static thread_local ThreadMemory memory;
  return memory;
}

constexpr int64_t kAlign = 16;               // floats in a cache line
constexpr int64_t kKeep = int64_t{1} << 22;  // at most 16 MB stay with a thread

float* aligned(float* p) { return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63}); }

// The three products that attention consists of, of numbers or of pairs on the axis that is summed over.
//
// tile[key][query] = rows[key] · columns[·][query]
template <class T>
ProductOf<T> dots(const T* rows, int64_t keys, int64_t width, const T* columns, int64_t lanes, float* tile) {
  return {.a = rows,
          .step = 1,
          .row = width,
          .rows = keys,
          .b = columns,
          .b_row = kTileQueries,
          .lanes = lanes,
          .c = tile,
          .c_row = kTileQueries,
          .n = width,
          .add = false};
}

// sums[·][query] += Σ_key rows[key][·] tile[key][query]
template <class T>
ProductOf<T> sum_of_keys(const T* rows, int64_t keys, int64_t width, const T* tile, int64_t lanes, float* sums) {
  return {.a = rows,
          .step = width,
          .row = 1,
          .rows = width,
          .b = tile,
          .b_row = kTileQueries,
          .lanes = lanes,
          .c = sums,
          .c_row = kTileQueries,
          .n = keys,
          .add = true};
}

// sums[key][·] += Σ_query tile[key][query] rows[query][·]; rows of the tile `row` apart, the others `pitch`
template <class T>
ProductOf<T> sum_of_queries(const T* tile, int64_t row, int64_t keys, int64_t queries, const T* rows, int64_t pitch,
                            float* sums) {
  return {.a = tile,
          .step = 1,
          .row = row,
          .rows = keys,
          .b = rows,
          .b_row = pitch,
          .lanes = pitch,
          .c = sums,
          .c_row = pitch,
          .n = queries,
          .add = true};
}

}  // namespace

Scratch::Scratch() {
  FOVEA_ASSERT(!thread_memory().busy, "two at once in one thread");
  thread_memory().busy = true;
}

Scratch::~Scratch() {
  ThreadMemory& memory = thread_memory();
  memory.busy = false;
  const int64_t keep = std::min(wanted_, kKeep);
  if (keep > memory.size) {
    memory.block.reset(new (std::nothrow) float[size_t(keep + kAlign)]);
    memory.size = memory.block ? keep : 0;
  }
}

float* Scratch::take(int64_t count) {
  count = tile_count(std::max<int64_t>(count, 1), kAlign) * kAlign;
  wanted_ += count;
  ThreadMemory& memory = thread_memory();
  if (used_ + count <= memory.size) {
    float* out = aligned(memory.block.get()) + used_;
    used_ += count;
    return out;
  }
  more_.emplace_back(new float[size_t(count + kAlign)]);
  return aligned(more_.back().get());
}

bool finite(const Isa& isa, const Matrix& rows, int64_t count, int64_t width) {
  std::vector<float> row(size_t(width) + 16);
  for (int64_t r = 0; r < count; ++r) {
    isa.pack(rows.at(r * rows.row), 1, width, 1.0f, row.data(), width);
    if (!isa.finite(row.data(), width)) return false;
  }
  return true;
}

QueryTile::QueryTile(const Isa& isa, int64_t width, bool paired, bool with_rows, Scratch& scratch)
    : isa_(isa),
      width_(width),
      pitch_(tile_count(width, isa.lanes) * isa.lanes),
      with_rows_(with_rows),
      columns_(scratch.take(kTileQueries * width)),
      rows_(scratch.take(kTileQueries * pitch_)) {
  if (!paired) return;
  column_pairs_ = scratch.take_pairs(kTileQueries * tile_count(width, 2));
  if (!with_rows) return;
  row_pairs_ = scratch.take_pairs(kTileQueries / 2 * pitch_);
  rounded_ = scratch.take_pairs(kTileKeys * kTileQueries / 2);
}

void QueryTile::open(const Matrix& from, int64_t queries, float scale) {
  factor_ = paired() ? scale : 1.0f;
  const float scale_now = paired() ? 1.0f : scale;
  if (from.plain() && !with_rows_) {
    isa_.transpose(from.plain(), from.row, queries, width_, scale_now, columns_);
  } else {
    isa_.pack(from, queries, width_, scale_now, rows_, pitch_);
    isa_.transpose(rows_, pitch_, queries, width_, 1.0f, columns_);
  }
  if (!paired()) return;
  isa_.pair_rows({columns_, Number::kFloat, kTileQueries, 1}, width_, kTileQueries, column_pairs_, kTileQueries);
  if (with_rows_) isa_.pair_rows({rows_, Number::kFloat, pitch_, 1}, queries, pitch_, row_pairs_, pitch_);
}

void QueryTile::sum_over_queries(const TilePlan::Step& step, const float* tile, float* sums) const {
  const int64_t keys = step.last - step.first, queries = step.queries;
  if (!paired()) return isa_.product(sum_of_queries<float>(tile, kTileQueries, keys, queries, rows_, pitch_, sums));
  isa_.store(tile, kTileQueries, keys, queries, {rounded_, Number::kBFloat16, kTileQueries, 1});
  if (queries % 2 == 1)  // the last one's partner
    for (int64_t k = 0; k < keys; ++k) rounded_[(k * kTileQueries + queries) / 2].odd = 0;
  auto product =
      sum_of_queries<Pair>(rounded_, kTileQueries / 2, keys, tile_count(queries, 2), row_pairs_, pitch_, sums);
  product.factor = factor_;
  isa_.product_pairs(product);
}

PackedRows::PackedRows(const Isa& isa, Packing packing, int64_t width, int64_t most_rows, Scratch& scratch)
    : isa_(isa), packing_(packing), width_(width) {
  switch (packing) {
    case Packing::kNumbers:
      packed_ = scratch.take(most_rows * width);
      break;
    case Packing::kPairsOfColumns:
      packed_ = scratch.take(most_rows * tile_count(width, 2));
      break;
    case Packing::kPairsOfKeys:
      packed_ = scratch.take(tile_count(most_rows, 2) * width);
      rounded_ = scratch.take_pairs(kTileKeys / 2 * kTileQueries);
  }
}

void PackedRows::open(const Matrix& rows, int64_t count) {
  rows_ = rows, count_ = count;
  is_packed_.assign(size_t(tile_count(count, kTileKeys)), 0);
  is_finite_.assign(is_packed_.size(), 2);  // not known
}

const float* PackedRows::tile(int64_t index) {
  const int64_t first = index * kTileKeys;
  if (rows_.plain() && rows_.row == width_) return rows_.plain() + first * width_;
  float* out = packed_ + first * width_;
  if (!is_packed_[size_t(index)]) {
    isa_.pack(matrix(index), rows_of(index), width_, 1.0f, out, width_);
    is_packed_[size_t(index)] = 1;
  }
  return out;
}

const Pair* PackedRows::pairs(int64_t index) {
  const Matrix from = matrix(index);
  const bool of_keys = packing_ == Packing::kPairsOfKeys;
  if (!of_keys && from.column == 1 && from.row == width_ && width_ % 2 == 0) return static_cast<const Pair*>(from.data);
  const int64_t pitch = tile_count(width_, 2);
  Pair* out = reinterpret_cast<Pair*>(packed_) + index * kTileKeys * (of_keys ? width_ : 2 * pitch) / 2;
  if (is_packed_[size_t(index)]) return out;
  if (of_keys) {
    isa_.pair_rows(from, rows_of(index), width_, out, width_);
  } else {
    for (int64_t r = 0; r < rows_of(index); ++r) {
      const uint16_t* row = static_cast<const uint16_t*>(from.data) + r * from.row;
      for (int64_t i = 0; i < pitch; ++i)
        out[r * pitch + i] = {row[2 * i * from.column],
                              2 * i + 1 < width_ ? row[(2 * i + 1) * from.column] : uint16_t{0}};
    }
  }
  is_packed_[size_t(index)] = 1;
  return out;
}

bool PackedRows::finite(int64_t index) {
  auto& known = is_finite_[size_t(index)];
  if (known == 2)
    known = packing_ == Packing::kNumbers ? isa_.finite(tile(index), rows_of(index) * width_)
                                          : fovea::finite(isa_, matrix(index), rows_of(index), width_);
  return known != 0;
}

bool PackedRows::touches_hidden(const TilePlan::Step& step) const {
  return packing_ == Packing::kPairsOfKeys &&
         (step.first % 2 == 1 || (step.last % 2 == 1 && step.last < rows_of(step.tile)));
}

void PackedRows::multiply(const TilePlan::Step& step, const QueryTile& columns, float* tile_out) {
  const int64_t keys = step.last - step.first;
  if (packing_ == Packing::kNumbers)
    return isa_.product(
        dots(tile(step.tile) + step.first * width_, keys, width_, columns.columns(), lanes(step), tile_out));
  const int64_t pitch = tile_count(width_, 2);
  auto product =
      dots(pairs(step.tile) + step.first * pitch, keys, pitch, columns.column_pairs(), lanes(step), tile_out);
  product.factor = columns.factor();
  isa_.product_pairs(product);
}

void PackedRows::sum_over_keys(const TilePlan::Step& step, float* tile_in, float* sums) {
  const int64_t keys = step.last - step.first;
  if (packing_ == Packing::kNumbers)
    return isa_.product(
        sum_of_keys<float>(tile(step.tile) + step.first * width_, keys, width_, tile_in, lanes(step), sums));
  const int64_t before = step.first % 2;
  isa_.pair_rows({tile_in - before * kTileQueries, Number::kFloat, kTileQueries, 1}, before + keys, lanes(step),
                 rounded_, kTileQueries);
  isa_.product_pairs(sum_of_keys<Pair>(pairs(step.tile) + step.first / 2 * width_, tile_count(before + keys, 2), width_,
                                       rounded_, lanes(step), sums));
}

}  // namespace fovea
