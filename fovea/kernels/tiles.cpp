// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/tiles.h"

#include <algorithm>
#include <cstring>

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

void multiply(const Isa& isa, const float* rows, int64_t keys, int64_t width, const float* columns, int64_t lanes,
              float* tile) {
  isa.product({.a = rows,
               .step = 1,
               .row = width,
               .rows = keys,
               .b = columns,
               .b_row = kTileQueries,
               .lanes = lanes,
               .c = tile,
               .c_row = kTileQueries,
               .n = width,
               .add = false});
}

void sum_over_keys(const Isa& isa, const float* rows, int64_t keys, int64_t width, const float* tile, int64_t lanes,
                   float* sums) {
  isa.product({.a = rows,
               .step = width,
               .row = 1,
               .rows = width,
               .b = tile,
               .b_row = kTileQueries,
               .lanes = lanes,
               .c = sums,
               .c_row = kTileQueries,
               .n = keys,
               .add = true});
}

void sum_over_queries(const Isa& isa, const float* tile, int64_t keys, int64_t queries, const float* rows,
                      int64_t pitch, float* sums) {
  isa.product({.a = tile,
               .step = 1,
               .row = kTileQueries,
               .rows = keys,
               .b = rows,
               .b_row = pitch,
               .lanes = pitch,
               .c = sums,
               .c_row = pitch,
               .n = queries,
               .add = true});
}

PackedRows::PackedRows(const Isa& isa, int64_t width, int64_t most_rows, Scratch& scratch)
    : isa_(isa), width_(width), packed_(scratch.take(most_rows * width)) {}

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
    isa_.pack(rows_.at(first * rows_.row), std::min(kTileKeys, count_ - first), width_, 1.0f, out, width_);
    is_packed_[size_t(index)] = 1;
  }
  return out;
}

bool PackedRows::finite(int64_t index) {
  auto& known = is_finite_[size_t(index)];
  if (known == 2) known = isa_.finite(tile(index), std::min(kTileKeys, count_ - index * kTileKeys) * width_);
  return known != 0;
}

TileDropout AttentionTask::tile_dropout(int64_t b, int64_t h, int64_t q0) const {
  if (dropout == 0) return {};
  return {uint64_t(dropout * 4294967296.0 + 0.5), dropout_seed, float(1.0 / (1.0 - dropout)), b, h, q0};
}

ScoreTiles::ScoreTiles(const AttentionTask& task, Scratch& scratch, bool backward)
    : task_(task),
      isa_(*task.isa),
      row_pitch_(tile_count(task.D, isa_.lanes) * isa_.lanes),
      backward_(backward),
      rows_(scratch.take(kTileQueries * row_pitch_)),
      transposed_(scratch.take(kTileQueries * task.D)),
      scores_(scratch.take(kTileQueries * kTileKeys)) {
  if (task.soft_cap > 0 && backward) capped_ = scratch.take(kTileQueries * kTileKeys);
  const auto& visitors = task.sequences.front().visitors;  // the same kinds for each sequence
  if (std::any_of(visitors.begin(), visitors.end(), [](auto* visitor) { return visitor->reads_query(); })) {
    unscaled_ = scratch.take(kTileQueries * task.D);
    if (backward) query_gradient_ = scratch.take(kTileQueries * task.D);
  }
  for (const auto* visitor : visitors)
    before_.push_back(backward && visitor->needs_scores() ? scratch.take(kTileQueries * kTileKeys) : nullptr);
}

int64_t ScoreTiles::lanes() const { return tile_count(queries_, isa_.lanes) * isa_.lanes; }

void ScoreTiles::open(const Sequence& sequence, int64_t h, int64_t q0, int64_t rows) {
  sequence_ = &sequence, h_ = h, q0_ = q0, queries_ = rows;
  const Matrix query = sequence.query.at(h).at(q0 * sequence.query.first.row);
  if (unscaled_) isa_.pack(query, rows, task_.D, 1.0f, unscaled_, task_.D);
  if (query_gradient_) std::memset(query_gradient_, 0, sizeof(float) * size_t(rows * task_.D));
  if (query.plain() && !backward_) {
    isa_.transpose(query.plain(), query.row, rows, task_.D, task_.scale, transposed_);
    return;
  }
  isa_.pack(query, rows, task_.D, task_.scale, rows_, row_pitch_);
  isa_.transpose(rows_, row_pitch_, rows, task_.D, 1.0f, transposed_);
}

ScoreTile ScoreTiles::tile(float* values, const TilePlan::Step& step) const {
  return {.b = sequence_->batch,
          .h = h_,
          .q0 = q0_,
          .k0 = step.tile * kTileKeys + step.first,
          .queries = queries_,
          .keys = step.last - step.first,
          .values = values,
          .stride = kTileQueries,
          .query = unscaled_,
          .query_gradient = query_gradient_};
}

float* ScoreTiles::compute(const TilePlan& plan, const TilePlan::Step& step, const float* keys) {
  const int64_t count = step.last - step.first;
  multiply(isa_, keys + step.first * task_.D, count, task_.D, transposed_, lanes(), scores_);
  const size_t bytes = sizeof(float) * size_t(count * kTileQueries);
  if (task_.soft_cap > 0) {
    isa_.soft_cap(scores_, count, task_.soft_cap);
    if (capped_) std::memcpy(capped_, scores_, bytes);
  }
  for (size_t i = 0; i < sequence_->visitors.size(); ++i) {
    if (before_[i]) std::memcpy(before_[i], scores_, bytes);
    sequence_->visitors[i]->forward(tile(scores_, step));
  }
  if (step.bits != TilePlan::kFull) isa_.hide(scores_, count, plan.bits(step) + step.first);
  return scores_;
}

void ScoreTiles::backward(float* gradients, const TilePlan::Step& step, const std::vector<std::vector<float*>>& own) {
  const ScoreTile toward = tile(gradients, step);
  for (size_t i = sequence_->visitors.size(); i-- > 0;)
    sequence_->visitors[i]->backward(toward, tile(before_[i], step), own[i].data());
  if (task_.soft_cap > 0) isa_.soft_cap_backward(gradients, capped_, step.last - step.first, task_.soft_cap);
}

}  // namespace fovea
