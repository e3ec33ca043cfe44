// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/bucket_table.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <cstdlib>

#include "fovea/scores/registry.h"

namespace fovea {

// In f32, as the models that use the table were trained: the logarithm decides buckets at their borders.
int64_t t5_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t bucket = 0;
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return bucket + distance;
  const float ratio = std::log(float(distance) / float(exact)) / float(std::log(double(max_distance) / double(exact)));
  return bucket + std::min(buckets - 1, exact + int64_t(ratio * float(buckets - exact)));
}

namespace {

// Buckets of the distances −(T − 1 + S − T) … S − 1 − (S − T): one list serves every tile, read by k − q.
std::vector<int64_t> buckets_by_distance(const std::vector<int64_t>& numbers, int64_t buckets,
                                         const AttentionShape& s) {
  std::vector<int64_t> out;
  for (int64_t distance = -(s.T - 1 + s.offset()); distance <= s.S - 1 - s.offset(); ++distance)
    out.push_back(t5_bucket(distance, numbers[0] != 0, buckets, numbers[1]));
  return out;
}

class BucketVisitor final : public ScoreVisitor {
 public:
  BucketVisitor(const ArrayView& table, std::vector<int64_t> buckets, const AttentionShape& s)
      : buckets_(std::move(buckets)), heads_(s.H), last_(s.S - 1) {
    for (int64_t h = 0; h < heads_; ++h)
      for (size_t i = buckets_.size(); i-- > 0;) bias_.push_back(table.at<float>(buckets_[i], h));
  }

  void forward(const ScoreTile& t) const override {
    for (int64_t k = 0; k < t.keys; ++k) {
      float* row = t.values + k * t.stride;
      const float* bias = bias_.data() + t.h * int64_t(buckets_.size()) + (t.q0 - t.k0 - k + last_);
      for (int64_t q = 0; q < t.queries; ++q) row[q] += bias[q];
    }
  }
  void backward(const ScoreTile& g, const ScoreTile&, float* const* own) const override {
    if (!own[0]) return;
    std::vector<float> sums(size_t(g.queries + g.keys - 1));  // by q − k, from 1 − keys on
    for (int64_t k = 0; k < g.keys; ++k) {
      const float* row = g.values + k * g.stride;
      float* sum = sums.data() + (g.keys - 1 - k);
      for (int64_t q = 0; q < g.queries; ++q) sum[q] += row[q];
    }
    const int64_t first = int64_t(buckets_.size()) - 1 - (g.q0 - g.k0 - (g.keys - 1) + last_);  // the bucket of sums[0]
    for (size_t i = 0; i < sums.size(); ++i) own[0][buckets_[size_t(first) - i] * heads_ + g.h] += sums[i];
  }
  ReducedAxes reduced_axes() const override { return {.head = false}; }

 private:
  std::vector<int64_t> buckets_;  // by k − q, rising
  std::vector<float> bias_;       // [H], then by q − k, rising: neighbouring queries read neighbouring numbers
  int64_t heads_, last_;
};

void check_table(const std::vector<int64_t>& numbers, int64_t rank, int64_t buckets, int64_t columns, int64_t heads) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 2 && numbers[1] > 0,
                   "scores::bucket_table: wanted a direction and a max_distance above 0");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, rank == 2 && columns == heads && buckets >= 4,
                   "scores::bucket_table: wanted a table [buckets, H] = [4 or more, ", heads, "], got rank ", rank,
                   " [", buckets, ", ", columns, "]");
  const int64_t exact = (numbers[0] ? buckets / 2 : buckets) / 2;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers[1] > exact, "scores::bucket_table: max_distance ", numbers[1],
                   " must be above the ", exact, " distances that have a bucket of their own");
}

at::Tensor define_bucket_table(const Score::Term& term, const at::Tensor& scores, const at::Tensor&, double,
                               const AttentionShape& s) {
  const at::Tensor& table = term.data[0];
  const bool flat = table.dim() == 0;  // has no sizes to ask for
  check_table(term.numbers, table.dim(), flat ? 0 : table.size(0), flat ? 0 : table.size(-1), s.H);
  const auto by_distance =
      at::tensor(buckets_by_distance(term.numbers, table.size(0), s), at::kLong).to(table.device());
  // index of distance k − q − offset in the list: k − q + T − 1
  const auto index = at::arange(s.S).unsqueeze(0) - at::arange(s.T).unsqueeze(1) + (s.T - 1);  // [T, S]
  const auto rows = by_distance.index_select(0, index.flatten().to(table.device()));
  return scores + table.to(scores.scalar_type()).index_select(0, rows).view({s.T, s.S, s.H}).permute({2, 0, 1});
}

}  // namespace

Score scores::bucket_table(const at::Tensor& table, bool bidirectional, int64_t max_distance) {
  return Score::term("bucket_table", {bidirectional, max_distance}, {table});
}

void register_scores_bucket_table(ScoresRegistry& registry) {
  registry.add(
      "bucket_table",
      {.define = define_bucket_table,
       .bind = [](auto& numbers, auto& data, double, auto& s) -> ScoreVisitorPtr {
         check_table(numbers, data[0].rank, data[0].size[0], data[0].size[1], s.H);
         return std::make_shared<BucketVisitor>(data[0], buckets_by_distance(numbers, data[0].size[0], s), s);
       },
       .samples =
           [](auto& s) {
             const auto table = at::arange(8 * s.H, at::kFloat).sin().view({8, s.H});
             return std::vector<Score>{scores::bucket_table(table, true, 16), scores::bucket_table(table, false, 16)};
           }});
}

}  // namespace fovea
