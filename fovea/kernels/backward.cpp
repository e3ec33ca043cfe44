// The backward pass recomputes each tile of weights from the log-sum-exp, so that none was kept (Dao et al. 2022,
// algorithm 4):
//
//   P = exp(S − lse)   dV += Pᵀ·dO   dP = dO·Vᵀ   dS = P ∘ (dP − Σ dO ∘ O)   dQ += dS·K   dK += dSᵀ·Q
//
// Where products are of pairs of bf16, P and dS are rounded for dV and dK. dQ stays a product of f32: with dS rounded
// its error would grow by 40 % to what PyTorch's is, and with dS in two rounded parts it would take as many
// instructions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>

#include "fovea/kernels/tiles.h"

namespace fovea {
namespace {

// A unit of work: the keys of some tiles of one key/value head, against all queries of its group. Nobody else adds to
// their dK and dV.
struct KeyUnit {
  int64_t sequence, group, chunk;
};

// How the work is cut: by shapes alone.
struct Cut {
  int64_t chunks = 1;                                                  // of each head's keys
  int64_t chunk_tiles = 0;                                             // tiles of a chunk
  bool serial_batch = false, serial_head = false, serial_key = false;  // axes that must stay in one thread

  explicit Cut(const AttentionTask& task) {
    int64_t most_tiles = 0;
    for (const Sequence& s : task.sequences) most_tiles = std::max(most_tiles, tile_count(s.S, kTileKeys));
    // Few heads cannot feed many threads: their keys are cut, and the parts of dQ added up afterwards.
    const int64_t heads = std::max<int64_t>(1, int64_t(task.sequences.size()) * task.G);
    chunks = std::clamp<int64_t>(tile_count(16, heads), 1, std::max<int64_t>(1, most_tiles / 8));
    chunk_tiles = tile_count(most_tiles, chunks);
  }
};

class BackwardWorker {
 public:
  BackwardWorker(const AttentionTask& task, const Cut& cut, int64_t most_keys)
      : task_(task),
        isa_(*task.isa),
        cut_(cut),
        chunk_rows_(std::min(most_keys, cut.chunk_tiles * kTileKeys)),
        scores_(task, scratch_, true),
        keys_(isa_, task.paired() ? Packing::kPairsOfColumns : Packing::kNumbers, task.D, most_keys, scratch_),
        wide_keys_(isa_, Packing::kNumbers, task.D, task.paired() ? most_keys : 0, scratch_),
        values_(isa_, task.paired() ? Packing::kPairsOfColumns : Packing::kNumbers, task.E, most_keys, scratch_),
        output_(isa_, task.E, false, true, scratch_),
        output_gradient_(isa_, task.E, task.paired(), true, scratch_),
        pitch_k_(scores_.query().pitch()),
        pitch_v_(output_.pitch()),
        weight_gradients_(scratch_.take(kTileQueries * kTileKeys)),
        query_gradient_(scratch_.take(kTileQueries * task.D)),
        rows_(scratch_.take(kTileQueries * task.D)),
        key_gradient_(scratch_.take(chunk_rows_ * pitch_k_)),
        value_gradient_(scratch_.take(chunk_rows_ * pitch_v_)) {}

  // Parts of dQ go to part[h - first head of the group][T][D] where there is more than one chunk.
  void run(const KeyUnit& unit, const std::vector<std::vector<float*>>& own, float* part) {
    const Sequence& s = task_.sequences[size_t(unit.sequence)];
    const int64_t g = unit.group, heads = task_.H / task_.G;
    keys_.open(s.key.at(g), s.S);
    wide_keys_.open(s.key.at(g), s.S);
    values_.open(s.value.at(g), s.S);
    first_tile_ = unit.chunk * cut_.chunk_tiles;
    const int64_t first_key = std::min(s.S, first_tile_ * kTileKeys);
    const int64_t rows = std::min(s.S, (first_tile_ + cut_.chunk_tiles) * kTileKeys) - first_key;
    std::fill_n(key_gradient_, rows * pitch_k_, 0.0f);
    std::fill_n(value_gradient_, rows * pitch_v_, 0.0f);
    for (int64_t h = g * heads; h < (g + 1) * heads; ++h)
      for (int64_t q0 = 0; q0 < s.T; q0 += kTileQueries)
        query_tile(s, h, q0, std::min(kTileQueries, s.T - q0), own,
                   part ? part + (h - g * heads) * s.T * task_.D : nullptr);
    isa_.store(key_gradient_, pitch_k_, rows, task_.D, s.key_gradient.at(g).at(first_key * s.key_gradient.first.row));
    isa_.store(value_gradient_, pitch_v_, rows, task_.E,
               s.value_gradient.at(g).at(first_key * s.value_gradient.first.row));
  }

 private:
  void query_tile(const Sequence& s, int64_t h, int64_t q0, int64_t queries,
                  const std::vector<std::vector<float*>>& own, float* part) {
    std::fill_n(query_gradient_, kTileQueries * task_.D, 0.0f);
    bool is_open = false;  // only for queries that see one of these keys
    const TilePlan& plan = s.plan_of(h)[size_t(q0 / kTileQueries)];
    for (const TilePlan::Step& step : plan.steps()) {
      if (step.tile < first_tile_ || step.tile >= first_tile_ + cut_.chunk_tiles) continue;
      if (!is_open) open_query_tile(s, h, q0, queries);
      is_open = true;
      tile(plan, step, own);
    }

    const Matrix to = part ? Matrix{part + q0 * task_.D, Number::kFloat, task_.D, 1}
                           : s.query_gradient.at(h).at(q0 * s.query_gradient.first.row);
    float scale[kTileQueries];
    std::fill_n(scale, kTileQueries, task_.scale);
    if (!is_open || !scores_.query_gradient()) {
      isa_.store_transposed(query_gradient_, scale, queries, task_.D, to);
      return;
    }
    isa_.store_transposed(query_gradient_, scale, queries, task_.D, {rows_, Number::kFloat, task_.D, 1});
    for (int64_t i = 0; i < queries * task_.D; ++i) rows_[i] += scores_.query_gradient()[i];
    isa_.store(rows_, task_.D, queries, task_.D, to);
  }

  void open_query_tile(const Sequence& s, int64_t h, int64_t q0, int64_t queries) {
    scores_.open(s, h, q0, queries);
    output_.open(s.output.at(h).at(q0 * s.output.first.row), queries, 1.0f);
    output_gradient_.open(s.output_gradient.at(h).at(q0 * s.output_gradient.first.row), queries,
                          scores_.weight_scale());
    std::fill_n(delta_, kTileQueries, 0.0f);
    for (int64_t e = 0; e < task_.E; ++e)
      for (int64_t q = 0; q < kTileQueries; ++q)
        delta_[q] += output_.columns()[e * kTileQueries + q] * output_gradient_.columns()[e * kTileQueries + q];
    for (int64_t q = 0; q < kTileQueries; ++q) {
      const float lse = q < queries ? s.log_sum_exp[h * s.T + q0 + q] : -kInfinity;
      log_sum_exp_[q] =
          lse == -kInfinity ? kInfinity : lse;  // a query that sees nothing: all weights exp(score − ∞) = 0
    }
  }

  void tile(const TilePlan& plan, const TilePlan::Step& step, const std::vector<std::vector<float*>>& own) {
    const int64_t row = (step.tile - first_tile_) * kTileKeys + step.first;  // of this chunk's gradients

    float* weights = scores_.compute(plan, step, keys_);          // S, then P
    values_.multiply(step, output_gradient_, weight_gradients_);  // dP, then dS
    isa_.softmax_backward(weights, weight_gradients_, step.tile * kTileKeys + step.first, step.last - step.first,
                          step.queries, scores_.dropout(), log_sum_exp_, delta_);
    output_gradient_.sum_over_queries(step, weights, value_gradient_ + row * pitch_v_);  // dV
    scores_.backward(weight_gradients_, step, own);
    scores_.query().sum_over_queries(step, weight_gradients_, key_gradient_ + row * pitch_k_);      // dK
    (task_.paired() ? wide_keys_ : keys_).sum_over_keys(step, weight_gradients_, query_gradient_);  // dQ / scale
  }

  const AttentionTask& task_;
  const Isa& isa_;
  const Cut& cut_;
  Scratch scratch_;
  int64_t chunk_rows_, first_tile_ = 0;
  ScoreTiles scores_;
  PackedRows keys_, wide_keys_, values_;
  QueryTile output_, output_gradient_;
  int64_t pitch_k_, pitch_v_;
  float *weight_gradients_, *query_gradient_, *rows_;
  float *key_gradient_, *value_gradient_;  // [key of the chunk][pitch]
  float log_sum_exp_[kTileQueries], delta_[kTileQueries];
};

// Where a unit's sums of visitors' gradients go. Small ones get a copy per group of units, joined in order; for large
// ones the axes they are summed over stay in one thread, which adds to them in order.
class LearnedSums {
 public:
  static constexpr int64_t kCopyLimit = int64_t{1} << 22;  // floats of all copies

  LearnedSums(const AttentionTask& task, Cut& cut) : task_(task) {
    for (const auto& parameters : task.learned)
      for (const auto& learned : parameters) size_ += learned.data ? learned.size : 0;
    const int64_t units = int64_t(task.sequences.size()) * task.G * cut.chunks;
    copies_ = size_ > 0 && size_ * units <= kCopyLimit;
    if (copies_ || size_ == 0) return;
    for (const auto* visitor : task.sequences.front().visitors) {
      const ReducedAxes axes = visitor->reduced_axes();
      cut.serial_batch |= axes.batch, cut.serial_head |= axes.head, cut.serial_key |= axes.key;
    }
  }

  void open(size_t groups) {
    if (copies_) sums_.assign(groups * size_t(size_), 0.0f);
  }
  // own[visitor][parameter] for a group of units.
  std::vector<std::vector<float*>> own(size_t group) {
    std::vector<std::vector<float*>> out;
    float* next = sums_.data() + (copies_ ? group * size_t(size_) : 0);
    for (const auto& parameters : task_.learned) {
      out.emplace_back();
      for (const auto& learned : parameters) {
        out.back().push_back(!learned.data ? nullptr : copies_ ? next : learned.data);
        if (learned.data) next += learned.size;
      }
    }
    return out;
  }
  void join(size_t groups) {
    for (size_t group = 0; copies_ && group < groups; ++group) {
      const auto from = own(group);
      for (size_t i = 0; i < from.size(); ++i)
        for (size_t j = 0; j < from[i].size(); ++j)
          for (int64_t n = 0; from[i][j] && n < task_.learned[i][j].size; ++n)
            task_.learned[i][j].data[n] += from[i][j][n];
    }
  }

 private:
  const AttentionTask& task_;
  int64_t size_ = 0;
  bool copies_ = false;
  std::vector<float> sums_;
};

// Units that must run one after the other form a group; groups run side by side.
std::vector<std::vector<KeyUnit>> groups_of(const AttentionTask& task, const Cut& cut) {
  std::vector<std::vector<KeyUnit>> groups;
  std::vector<std::pair<int64_t, KeyUnit>> keyed;
  const int64_t sequences = int64_t(task.sequences.size());
  for (int64_t s = 0; s < sequences; ++s)
    for (int64_t g = 0; g < task.G; ++g)
      for (int64_t c = 0; c < cut.chunks; ++c) {
        const int64_t key =
            ((cut.serial_batch ? 0 : s) * task.G + (cut.serial_head ? 0 : g)) * cut.chunks + (cut.serial_key ? 0 : c);
        keyed.push_back({key, {s, g, c}});
      }
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < keyed.size(); ++i) {
    if (i == 0 || keyed[i].first != keyed[i - 1].first) groups.emplace_back();
    groups.back().push_back(keyed[i].second);
  }
  return groups;
}

}  // namespace

void attention_backward(const AttentionTask& task) {
  if (task.sequences.empty() || task.G == 0) return;
  Cut cut(task);
  LearnedSums sums(task, cut);
  const auto groups = groups_of(task, cut);
  sums.open(groups.size());

  // Parts of dQ: [sequence][chunk][H][T][D], only where there is more than one chunk.
  std::vector<int64_t> part_begin{0};
  int64_t most_keys = 0;
  for (const Sequence& s : task.sequences) {
    most_keys = std::max(most_keys, s.S);
    part_begin.push_back(part_begin.back() + (cut.chunks > 1 ? cut.chunks * task.H * s.T * task.D : 0));
  }
  std::unique_ptr<float[]> parts(cut.chunks > 1 ? new float[size_t(part_begin.back())] : nullptr);
  const auto part_of = [&](const KeyUnit& unit) -> float* {
    if (!parts) return nullptr;
    const Sequence& s = task.sequences[size_t(unit.sequence)];
    return parts.get() + part_begin[size_t(unit.sequence)] +
           (unit.chunk * task.H + unit.group * (task.H / task.G)) * s.T * task.D;
  };

  const int64_t threads = std::min<int64_t>(task.threads, int64_t(groups.size()));
  std::atomic<size_t> next = 0;  // whoever is free takes the next: under a causal mask late keys have little to do
  task.parallel(threads, [&](int64_t) {
    BackwardWorker worker(task, cut, most_keys);
    for (size_t i = next++; i < groups.size(); i = next++) {
      const auto own = sums.own(i);
      for (const KeyUnit& unit : groups[i]) worker.run(unit, own, part_of(unit));
    }
  });
  sums.join(groups.size());
  if (!parts) return;

  task.parallel(int64_t(task.sequences.size()) * task.H, [&](int64_t i) {
    const int64_t h = i % task.H;
    const Sequence& s = task.sequences[size_t(i / task.H)];
    const int64_t size = s.T * task.D;
    float* first = parts.get() + part_begin[size_t(i / task.H)] + h * size;
    for (int64_t c = 1; c < cut.chunks; ++c)
      for (int64_t n = 0; n < size; ++n) first[n] += first[c * task.H * size + n];
    task.isa->store(first, task.D, s.T, task.D, s.query_gradient.at(h));
  });
}

}  // namespace fovea
