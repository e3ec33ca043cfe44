// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>

#include "fovea/kernels/decode.h"
#include "fovea/kernels/tiles.h"

namespace fovea {
namespace {

// A unit of work: one tile of queries of one head.
struct QueryUnit {
  int32_t sequence, head, tile;
};

// Unit after unit of one thread. The key/value head stays packed as long as units ask for the same one.
class ForwardWorker {
 public:
  ForwardWorker(const AttentionTask& task, int64_t most_keys)
      : task_(task),
        isa_(*task.isa),
        scores_(task, scratch_, false),
        keys_(isa_, task.paired() ? Packing::kPairsOfColumns : Packing::kNumbers, task.D, most_keys, scratch_),
        values_(isa_, task.paired() ? Packing::kPairsOfKeys : Packing::kNumbers, task.E, most_keys, scratch_),
        output_(scratch_.take(kTileQueries * task.E)) {
    state_.rounded = task.paired();
  }

  // false: a hidden key may be NaN or infinite.
  bool run(const QueryUnit& unit) {
    const Sequence& s = task_.sequences[size_t(unit.sequence)];
    const int64_t h = unit.head, g = h * task_.G / task_.H, q0 = unit.tile * kTileQueries;
    const int64_t queries = std::min(kTileQueries, s.T - q0);
    if (unit.sequence != sequence_ || g != group_) {
      keys_.open(s.key.at(g), s.S);
      values_.open(s.value.at(g), s.S);
      sequence_ = unit.sequence, group_ = g;
    }
    scores_.open(s, h, q0, queries);
    std::fill_n(state_.peak, kTileQueries, kLowest);
    std::fill_n(state_.sum, kTileQueries, 0.0f);
    std::fill_n(output_, kTileQueries * task_.E, 0.0f);

    const TilePlan& plan = s.plan_of(h)[size_t(unit.tile)];
    for (const TilePlan::Step& step : plan.steps()) {
      if ((step.bits != TilePlan::kFull || !s.visitors.empty() || values_.touches_hidden(step)) &&
          !(keys_.finite(step.tile) && values_.finite(step.tile)))
        return false;
      float* weights = scores_.compute(plan, step, keys_);
      isa_.softmax(weights, step.tile * kTileKeys + step.first, step.last - step.first, step.queries, scores_.dropout(),
                   state_, output_, task_.E);
      values_.sum_over_keys(step, weights, output_);
    }
    float factor[kTileQueries];
    for (int64_t q = 0; q < queries; ++q) {
      const bool sees = state_.sum[q] != 0;  // NaN sees
      factor[q] = sees ? scores_.weight_scale() / state_.sum[q] : 0.0f;
      s.log_sum_exp[h * s.T + q0 + q] = sees ? state_.peak[q] + std::log(state_.sum[q]) : -kInfinity;
    }
    isa_.store_transposed(output_, factor, queries, task_.E, s.output.at(h).at(q0 * s.output.first.row));
    return true;
  }

 private:
  const AttentionTask& task_;
  const Isa& isa_;
  Scratch scratch_;
  ScoreTiles scores_;
  PackedRows keys_, values_;
  float* output_;  // [E][query]
  SoftmaxState state_;
  int64_t sequence_ = -1, group_ = -1;
};

}  // namespace

bool attention_forward(const AttentionTask& task) {
  if (decodes(task)) return attention_decode(task);
  std::vector<QueryUnit> units;
  std::vector<int64_t> cost{0};  // of all units before
  int64_t most_keys = 0;
  for (size_t i = 0; i < task.sequences.size(); ++i) {
    const Sequence& s = task.sequences[i];
    most_keys = std::max(most_keys, s.S);
    for (int64_t h = 0; h < task.H; ++h) {
      for (int64_t tile = 0; tile < tile_count(s.T, kTileQueries); ++tile) {
        units.push_back({int32_t(i), int32_t(h), int32_t(tile)});
        cost.push_back(cost.back() + s.plan_of(h)[size_t(tile)].pairs_to_visit() + kTileKeys * kTileQueries / 2);
      }
    }
  }
  // Neighbouring units share a packed head, so each thread takes one run of them, all of about the same cost.
  std::atomic<bool> good{true};
  task.parallel(task.threads, [&](int64_t thread) {
    const auto bound = [&](int64_t share) {
      return size_t(std::lower_bound(cost.begin(), cost.end(), cost.back() * share / task.threads) - cost.begin());
    };
    const size_t end = thread + 1 == task.threads ? units.size() : bound(thread + 1);
    if (bound(thread) >= end) return;
    ForwardWorker worker(task, most_keys);
    for (size_t i = bound(thread); i < end && good; ++i)
      if (!worker.run(units[i])) good = false;
  });
  return good;
}

}  // namespace fovea
