// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/decode.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "fovea/kernels/tiles.h"

namespace fovea {
namespace {

constexpr int64_t kMostRows = 16;    // query rows of a key/value head
constexpr int64_t kShortest = 8;     // tiles of keys that are worth a thread of their own
constexpr int64_t kSideBySide = 16;  // keys read at once where all heads of a key are

// Some tiles of keys of one key/value head, or of all of them where the heads of a key lie side by side: so memory is
// read in one go. How many parts a head has depends on shapes alone.
struct Part {
  int64_t sequence, group, groups, first, last;
  int64_t place;  // of its first head's result
};

// Whether these heads see the same keys.
bool one_plan(const Sequence& s, int64_t first, int64_t heads) {
  for (int64_t h = first + 1; h < first + heads; ++h)
    if (&s.plan_of(h) != &s.plan_of(first)) return false;
  return true;
}

// Whether keys are to be read with all their heads: rows of a head lie apart, and all heads see the same.
bool side_by_side(const AttentionTask& task, const Sequence& s) {
  return task.G > 1 && s.key.head < s.key.first.row && one_plan(s, 0, task.H);
}

// A row's softmax over one part: peak, sum and the weighted sum of values.
class DecodeWorker {
 public:
  explicit DecodeWorker(const AttentionTask& task)
      : task_(task),
        isa_(*task.isa),
        query_(scratch_.take(kMostRows * task.D * task.G)),
        scores_(scratch_.take(kMostRows * kTileKeys)),
        capped_(scratch_.take(kTileQueries * kTileKeys)),
        packed_keys_(isa_, Packing::kNumbers, task.D, kTileKeys, scratch_),
        packed_values_(isa_, Packing::kNumbers, task.E, kTileKeys, scratch_) {}

  // partial: for each of the part's heads kMostRows rows of (peak, sum, E sums).
  bool run(const Part& part, float* partial) {
    const Sequence& s = task_.sequences[size_t(part.sequence)];
    const int64_t group = task_.H / task_.G, rows = group * s.T, first_head = part.group * group;
    for (int64_t h = 0; h < group * part.groups; ++h)
      isa_.pack(s.query.at(first_head + h), s.T, task_.D, task_.scale, query_ + h * s.T * task_.D, task_.D);
    std::vector<Rows> heads(size_t(part.groups));
    for (int64_t g = 0; g < part.groups; ++g)
      heads[size_t(g)] = {part.group + g, query_ + g * rows * task_.D, std::vector<float>(size_t(rows), kLowest),
                          std::vector<float>(size_t(rows)), std::vector<float>(size_t(rows * task_.E))};

    // Heads of a group whose masks differ are not read together.
    const int64_t together = one_plan(s, first_head, group) ? group : 1,
                  most = part.groups > 1 ? kSideBySide : kTileKeys;
    for (int64_t from = 0; from < group; from += together) {
      const TilePlan& plan = s.plan_of(first_head + from)[0];
      for (const TilePlan::Step& step : plan.steps()) {
        if (step.tile < part.first || step.tile >= part.last) continue;
        const QueryBits* bits = step.bits != TilePlan::kFull ? plan.bits(step) : nullptr;
        for (int64_t k = step.first; k < step.last; k += most)
          for (Rows& head : heads)
            if (!keys(s, head, step.tile * kTileKeys + k, std::min<int64_t>(most, step.last - k),
                      bits ? bits + k : nullptr, from * s.T, together * s.T))
              return false;
      }
    }
    for (const Rows& head : heads) {
      float* to = partial;
      for (int64_t r = 0; r < rows; ++r, to += 2 + task_.E) {
        to[0] = head.peak[size_t(r)], to[1] = head.sum[size_t(r)];
        std::copy_n(head.output.data() + r * task_.E, task_.E, to + 2);
      }
      partial += kMostRows * (2 + task_.E);
    }
    return true;
  }

 private:
  // The query rows of one key/value head, and what is known of them so far.
  struct Rows {
    int64_t group;
    const float* query;
    std::vector<float> peak, sum, output;
  };

  // Rows that lie in place with adjacent columns, or a packed copy of them.
  Matrix rows_of(const Matrix& all, int64_t first, int64_t count, PackedRows& packed) {
    const Matrix from = all.at(first * all.row);
    if (from.column == 1) return from;
    packed.open(from, count);
    return {const_cast<float*>(packed.tile(0)), Number::kFloat, packed.pitch(), 1};
  }

  // `count` keys from k0 on, for `rows` rows of the head from first_row on; bits: of these keys, null: all visible.
  bool keys(const Sequence& s, Rows& head, int64_t k0, int64_t count, const QueryBits* bits, int64_t first_row,
            int64_t rows) {
    const Matrix key = rows_of(s.key.at(head.group), k0, count, packed_keys_),
                 value = rows_of(s.value.at(head.group), k0, count, packed_values_);
    const bool restricted = bits != nullptr || !s.visitors.empty();
    if (restricted && !(finite(isa_, key, count, task_.D) && finite(isa_, value, count, task_.E))) return false;
    isa_.decode_scores({head.query + first_row * task_.D, rows, count, task_.D, key, scores_, nullptr, value});
    float factor[kMostRows];
    float* output = head.output.data() + first_row * task_.E;
    for (int64_t r = 0; r < rows; ++r) {
      float* scores = scores_ + r * kTileKeys;
      const int64_t row = first_row + r, h = head.group * (task_.H / task_.G) + row / s.T, q = row % s.T;
      adjust(s, h, q, k0, count, scores);
      for (int64_t k = 0; bits != nullptr && k < count; ++k)
        if (!(bits[k] >> q & 1)) scores[k] = -kInfinity;
      factor[r] = isa_.decode_softmax(scores, count, head.peak[size_t(row)], head.sum[size_t(row)]);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t e = 0; factor[r] != 1 && e < task_.E; ++e) output[r * task_.E + e] *= factor[r];
    isa_.decode_output({nullptr, rows, count, task_.E, value, scores_, output, {}});
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
  struct Split {
    int64_t place, count;  // of a sequence's results, [count][G]
  };
  std::vector<Split> splits;
  int64_t places = 0;
  for (size_t i = 0; i < task.sequences.size(); ++i) {
    const Sequence& s = task.sequences[i];
    const int64_t tiles = tile_count(s.S, kTileKeys), groups = side_by_side(task, s) ? task.G : 1,
                  units = std::max<int64_t>(1, int64_t(task.sequences.size()) * task.G / groups);
    const int64_t count = std::clamp<int64_t>(tile_count(32, units), 1, std::max<int64_t>(1, tiles / kShortest));
    for (int64_t g = 0; g < task.G; g += groups)
      for (int64_t p = 0; p < count && s.T > 0; ++p)  // a sequence without queries has no tiles
        parts.push_back({int64_t(i), g, groups, tiles * p / count, tiles * (p + 1) / count, places + p * task.G + g});
    splits.push_back({places, count});
    places += count * task.G;
  }
  const int64_t stride = kMostRows * (2 + task.E);
  std::vector<float> partial(size_t(places * stride));
  std::atomic<bool> good{true};
  const int64_t threads = std::min<int64_t>(task.threads, int64_t(parts.size()));
  task.parallel(threads, [&](int64_t thread) {
    DecodeWorker worker(task);
    const size_t end = parts.size() * size_t(thread + 1) / size_t(threads);
    for (size_t i = parts.size() * size_t(thread) / size_t(threads); i < end && good; ++i)
      if (!worker.run(parts[i], partial.data() + parts[i].place * stride)) good = false;
  });
  if (!good) return false;

  // Parts join in order.
  std::vector<float> sums(size_t(task.E));
  const int64_t group = task.H / task.G;
  for (size_t i = 0; i < task.sequences.size(); ++i) {
    const Sequence& s = task.sequences[i];
    for (int64_t row = 0; row < task.H * s.T; ++row) {
      const int64_t g = row / (group * s.T), r = row % (group * s.T);
      const auto part = [&](int64_t p) {
        return partial.data() + (splits[i].place + p * task.G + g) * stride + r * (2 + task.E);
      };
      float peak = kLowest, sum = 0;
      for (int64_t p = 0; p < splits[i].count; ++p) peak = std::max(peak, part(p)[0]);
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t p = 0; p < splits[i].count; ++p) {
        const float factor = std::exp(part(p)[0] - peak);
        sum += factor * part(p)[1];
        for (int64_t e = 0; e < task.E; ++e) sums[size_t(e)] += factor * part(p)[2 + e];
      }
      const bool sees = sum != 0;
      for (float& x : sums) x = sees ? x / sum : 0.0f;
      const int64_t h = row / s.T, q = row % s.T;
      task.isa->store(sums.data(), task.E, 1, task.E, s.output.at(h).at(q * s.output.first.row));
      s.log_sum_exp[h * s.T + q] = sees ? peak + std::log(sum) : -kInfinity;
    }
  }
  return true;
}

}  // namespace fovea
