// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/tiles.h"

#include <algorithm>
#include <cstring>

namespace fovea {

bool AttentionTask::paired() const {
  const auto narrow = [](const Heads& heads) { return heads.first.type == Number::kBFloat16; };
  return isa->product_pairs && std::all_of(sequences.begin(), sequences.end(), [&](const Sequence& s) {
           return narrow(s.query) && narrow(s.key) && narrow(s.value);
         });
}

TileDropout AttentionTask::tile_dropout(int64_t b, int64_t h, int64_t q0) const {
  if (dropout == 0) return {};
  return {uint64_t(dropout * 4294967296.0 + 0.5), dropout_seed, float(1.0 / (1.0 - dropout)), b, h, q0};
}

ScoreTiles::ScoreTiles(const AttentionTask& task, Scratch& scratch, bool backward)
    : task_(task),
      isa_(*task.isa),
      query_(isa_, task.D, task.paired(), backward, scratch),
      scores_(scratch.take(kTileQueries * (1 + kTileKeys)) + kTileQueries) {
  std::fill_n(scores_ - kTileQueries, kTileQueries, 0.0f);
  if (task.soft_cap > 0 && backward) capped_ = scratch.take(kTileQueries * kTileKeys);
  const auto& visitors = task.sequences.front().visitors;  // the same kinds for each sequence
  if (std::any_of(visitors.begin(), visitors.end(), [](auto* visitor) { return visitor->reads_query(); })) {
    unscaled_ = scratch.take(kTileQueries * task.D);
    if (backward) query_gradient_ = scratch.take(kTileQueries * task.D);
  }
  for (const auto* visitor : visitors)
    before_.push_back(backward && visitor->needs_scores() ? scratch.take(kTileQueries * kTileKeys) : nullptr);
}

TileDropout ScoreTiles::dropout() const {
  TileDropout out = task_.tile_dropout(sequence_->batch, h_, q0_);
  if (query_.paired()) out.kept = 1;
  return out;
}

float ScoreTiles::weight_scale() const {
  return query_.paired() && task_.dropout < 1 ? float(1.0 / (1.0 - task_.dropout)) : 1.0f;
}

void ScoreTiles::open(const Sequence& sequence, int64_t h, int64_t q0, int64_t rows) {
  sequence_ = &sequence, h_ = h, q0_ = q0;
  const Matrix query = sequence.query.at(h).at(q0 * sequence.query.first.row);
  if (unscaled_) isa_.pack(query, rows, task_.D, 1.0f, unscaled_, task_.D);
  if (query_gradient_) std::memset(query_gradient_, 0, sizeof(float) * size_t(rows * task_.D));
  query_.open(query, rows, task_.scale);
}

ScoreTile ScoreTiles::tile(float* values, const TilePlan::Step& step) const {
  return {.b = sequence_->batch,
          .h = h_,
          .q0 = q0_,
          .k0 = step.tile * kTileKeys + step.first,
          .queries = step.queries,
          .keys = step.last - step.first,
          .values = values,
          .stride = kTileQueries,
          .query = unscaled_,
          .query_gradient = query_gradient_};
}

float* ScoreTiles::compute(const TilePlan& plan, const TilePlan::Step& step, PackedRows& keys) {
  const int64_t count = step.last - step.first;
  keys.multiply(step, query_, scores_);
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
