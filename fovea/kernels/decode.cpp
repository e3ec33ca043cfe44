// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/decode.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "fovea/kernels/tiles.h"

namespace fovea {
namespace {

constexpr int64_t kMostRows = 16;  // query rows of a key/value head
constexpr int64_t kShortest = 8;   // tiles of keys that are worth a thread of their own

// Some tiles of keys of one key/value head. How many parts a head has depends on shapes alone.
struct Part {
  int64_t sequence, group, first, last;
};

// A row's softmax over one part: peak, sum and the weighted sum of values.
class DecodeWorker {
 public:
  explicit DecodeWorker(const AttentionTask& task)
      : task_(task),
        isa_(*task.isa),
        query_(scratch_.take(kMostRows * task.D)),
        scores_(scratch_.take(kMostRows * kTileKeys)),
        capped_(scratch_.take(kTileQueries * kTileKeys)),
        packed_keys_(isa_, Packing::kNumbers, task.D, kTileKeys, scratch_),
        packed_values_(isa_, Packing::kNumbers, task.E, kTileKeys, scratch_) {}

  // partial: [row](peak, sum, E sums).
  bool run(const Part& part, float* partial) {
    const Sequence& s = task_.sequences[size_t(part.sequence)];
    const int64_t group = task_.H / task_.G, rows = group * s.T;
    std::vector<float> peak(size_t(rows), kLowest), sum(size_t(rows), 0.0f);
    std::vector<float> output(size_t(rows * task_.E), 0.0f);
    for (int64_t h = 0; h < group; ++h)
      isa_.pack(s.query.at(part.group * group + h), s.T, task_.D, task_.scale, query_ + h * s.T * task_.D, task_.D);

    // Heads of a group whose masks differ are not read together.
    const int64_t first_head = part.group * group;
    bool one_plan = true;
    for (int64_t h = 1; h < group; ++h) one_plan &= &s.plan_of(first_head) == &s.plan_of(first_head + h);
    for (int64_t from = 0; from < group; from += one_plan ? group : 1) {
      const int64_t heads = one_plan ? group : 1;
      const TilePlan& plan = s.plan_of(first_head + from);
      for (const TilePlan::Step& step : plan.steps(0)) {
        if (step.tile < part.first || step.tile >= part.last) continue;
        if (!tile(s, part.group, plan, step, from, heads, peak.data(), sum.data(), output.data())) return false;
      }
    }
    for (int64_t r = 0; r < rows; ++r, partial += 2 + task_.E) {
      partial[0] = peak[size_t(r)], partial[1] = sum[size_t(r)];
      std::copy_n(output.data() + r * task_.E, task_.E, partial + 2);
    }
    return true;
  }

 private:
  // Rows that lie in place with adjacent columns, or a packed copy of them.
  Matrix rows_of(const Matrix& all, int64_t first, int64_t count, PackedRows& packed) {
    const Matrix from = all.at(first * all.row);
    if (from.column == 1) return from;
    packed.open(from, count);
    return {const_cast<float*>(packed.tile(0)), Number::kFloat, packed.pitch(), 1};
  }

  bool tile(const Sequence& s, int64_t g, const TilePlan& plan, const TilePlan::Step& step, int64_t from, int64_t heads,
            float* peak, float* sum, float* output) {
    const int64_t k0 = step.tile * kTileKeys + step.first, count = step.last - step.first, first_row = from * s.T,
                  rows = heads * s.T;
    const Matrix key = rows_of(s.key.at(g), k0, count, packed_keys_),
                 value = rows_of(s.value.at(g), k0, count, packed_values_);
    const bool restricted = step.bits != TilePlan::kFull || !s.visitors.empty();
    if (restricted && !(finite(isa_, key, count, task_.D) && finite(isa_, value, count, task_.E))) return false;
    DecodeBlock block{query_ + first_row * task_.D, rows, count, task_.D, key, scores_, nullptr, value};
    isa_.decode_scores(block);
    float factor[kMostRows];
    for (int64_t r = 0; r < rows; ++r) {
      float* scores = scores_ + r * kTileKeys;
      const int64_t h = g * (task_.H / task_.G) + from + r / s.T, q = r % s.T;
      adjust(s, h, q, k0, count, scores);
      if (step.bits != TilePlan::kFull)
        for (int64_t k = 0; k < count; ++k)
          if (!(plan.bits(step)[step.first + k] >> q & 1)) scores[k] = -kInfinity;
      factor[r] = isa_.decode_softmax(scores, count, peak[first_row + r], sum[first_row + r]);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t e = 0; factor[r] != 1 && e < task_.E; ++e) output[(first_row + r) * task_.E + e] *= factor[r];
    isa_.decode_output({nullptr, rows, count, task_.E, value, scores_, output + first_row * task_.E, {}});
    return true;
  }

  void adjust(const Sequence& s, int64_t h, int64_t q, int64_t k0, int64_t count, float* scores) {
    if (task_.soft_cap > 0) {
      std::copy_n(scores, count, capped_);
      isa_.soft_cap(capped_, tile_count(count, kTileQueries), task_.soft_cap);
      std::copy_n(capped_, count, scores);
    }
    if (s.visitors.empty()) return;
    std::vector<float> unscaled(size_t(task_.D));
    isa_.pack(s.query.at(h).at(q * s.query.first.row), 1, task_.D, 1.0f, unscaled.data(), task_.D);
    for (const auto* visitor : s.visitors)
      visitor->forward({.b = s.batch,
                        .h = h,
                        .q0 = q,
                        .k0 = k0,
                        .queries = 1,
                        .keys = count,
                        .values = scores,
                        .stride = 1,
                        .query = unscaled.data()});
  }

  const AttentionTask& task_;
  const Isa& isa_;
  Scratch scratch_;
  float *query_, *scores_, *capped_;
  PackedRows packed_keys_, packed_values_;
};

}  // namespace

bool decodes(const AttentionTask& task) {
  if (task.dropout > 0 || task.G == 0) return false;
  return std::all_of(task.sequences.begin(), task.sequences.end(), [&](const Sequence& s) {
    return s.T * (task.H / task.G) <= std::min(kMostRows, kTileQueries) && s.T <= 4;
  });
}

bool attention_decode(const AttentionTask& task) {
  std::vector<Part> parts;
  std::vector<size_t> begin{0};  // a head's parts
  const int64_t heads = std::max<int64_t>(1, int64_t(task.sequences.size()) * task.G);
  for (size_t i = 0; i < task.sequences.size(); ++i) {
    const int64_t tiles = tile_count(task.sequences[i].S, kTileKeys);
    const int64_t splits = std::clamp<int64_t>(tile_count(32, heads), 1, std::max<int64_t>(1, tiles / kShortest));
    for (int64_t g = 0; g < task.G; ++g) {
      for (int64_t p = 0; p < splits && task.sequences[i].T > 0; ++p)  // a sequence without queries has no tiles
        parts.push_back({int64_t(i), g, tiles * p / splits, tiles * (p + 1) / splits});
      begin.push_back(parts.size());
    }
  }
  const int64_t stride = kMostRows * (2 + task.E);
  std::vector<float> partial(parts.size() * size_t(stride));
  std::atomic<bool> good{true};
  const int64_t threads = std::min<int64_t>(task.threads, int64_t(parts.size()));
  task.parallel(threads, [&](int64_t thread) {
    DecodeWorker worker(task);
    const size_t end = parts.size() * size_t(thread + 1) / size_t(threads);
    for (size_t i = parts.size() * size_t(thread) / size_t(threads); i < end && good; ++i)
      if (!worker.run(parts[i], partial.data() + int64_t(i) * stride)) good = false;
  });
  if (!good) return false;

  // Parts join in order.
  std::vector<float> sums(size_t(task.E));
  for (size_t head = 0; head + 1 < begin.size(); ++head) {
    const Sequence& s = task.sequences[head / size_t(task.G)];
    const int64_t group = task.H / task.G, first_head = int64_t(head % size_t(task.G)) * group;
    for (int64_t r = 0; r < group * s.T; ++r) {
      const auto row = [&](size_t part) { return partial.data() + int64_t(part) * stride + r * (2 + task.E); };
      float peak = kLowest, sum = 0;
      for (size_t p = begin[head]; p < begin[head + 1]; ++p) peak = std::max(peak, row(p)[0]);
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (size_t p = begin[head]; p < begin[head + 1]; ++p) {
        const float factor = std::exp(row(p)[0] - peak);
        sum += factor * row(p)[1];
        for (int64_t e = 0; e < task.E; ++e) sums[size_t(e)] += factor * row(p)[2 + e];
      }
      const bool sees = sum != 0;
      for (float& x : sums) x = sees ? x / sum : 0.0f;
      const int64_t h = first_head + r / s.T, q = r % s.T;
      task.isa->store(sums.data(), task.E, 1, task.E, s.output.at(h).at(q * s.output.first.row));
      s.log_sum_exp[h * s.T + q] = sees ? peak + std::log(sum) : -kInfinity;
    }
  }
  return true;
}

}  // namespace fovea
