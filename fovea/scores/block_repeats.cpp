// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/block_repeats.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "fovea/masks/block_layout.h"
#include "fovea/scores/registry.h"

namespace fovea {
namespace {

class BlockRepeatsVisitor final : public ScoreVisitor {
 public:
  BlockRepeatsVisitor(BlockLayout layout, int64_t shift) : layout_(std::move(layout)), shift_(shift) {}

  void forward(const ScoreTile& t) const override {
    if (!layout_.is_sparse(t.b)) return;
    const int64_t begin = layout_.begin(t.b), end = layout_.end(t.b), size = layout_.size();
    // Within the text, both counted from its first token.
    const int64_t q0 = std::max(t.q0 + shift_, begin) - begin, q1 = std::min(t.q0 + t.queries + shift_, end) - begin;
    const int64_t k0 = std::max(t.k0, begin) - begin, k1 = std::min(t.k0 + t.keys, end) - begin;
    if (q0 >= q1 || k0 >= k1) return;
    for (int64_t i = q0 / size; i <= (q1 - 1) / size; ++i) {
      for (int64_t j = k0 / size; j <= (k1 - 1) / size; ++j) {
        const int64_t times = layout_.times(t.b, t.h, i, j);
        if (times <= 1) continue;
        const float bias = float(std::log(double(times)));
        for (int64_t k = std::max(k0, j * size); k < std::min(k1, (j + 1) * size); ++k)
          for (int64_t q = std::max(q0, i * size); q < std::min(q1, (i + 1) * size); ++q)
            t.at(q + begin - shift_, k + begin) += bias;
      }
    }
  }
  void backward(const ScoreTile&, const ScoreTile&, float* const*) const override {}  // a constant
  ReducedAxes reduced_axes() const override { return {.batch = false, .head = false, .query = false, .key = false}; }

 private:
  BlockLayout layout_;
  int64_t shift_;
};

// Slots and blocks come as f32, which tells whole numbers apart up to here.
void check_slots(const AttentionShape& s) {
  constexpr int64_t kMost = int64_t{1} << 24;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, s.S <= kMost, "scores::block_repeats: ", s.S, " keys, wanted at most ", kMost,
                   ": slots are carried as f32");
}

// [B or 1] -> [B or 1, 1, 1, 1]
at::Tensor per_text(const at::Tensor& x) { return x.to(at::kLong).view({-1, 1, 1, 1}); }

at::Tensor define_block_repeats(const Score::Term& term, const at::Tensor& scores, const at::Tensor&, double,
                                const AttentionShape& s) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, term.numbers.size() == 3 && term.data[0].dim() == 4,
                   "scores::block_repeats: wanted three numbers and listed [B or 1, H or 1, blocks, each]");
  check_slots(s);
  const int64_t size = term.numbers[0], least = term.numbers[1], form = term.numbers[2];
  const at::Tensor listed = term.data[0].to(at::kLong);
  const at::Tensor start = form & 1 ? per_text(term.data[1]) : at::zeros({1, 1, 1, 1}, at::kLong);
  const at::Tensor length = form & 2 ? per_text(term.data.back()) : s.S - start;
  const at::Tensor blocks = (length + (size - 1)).floor_divide(size);
  const auto inside = [&](const at::Tensor& place) { return place.ge(0).logical_and(place < length); };
  const at::Tensor query = at::arange(s.offset(), s.S).view({1, 1, s.T, 1}) - start;  // [B, 1, T, 1]
  const at::Tensor key = at::arange(s.S).view({1, 1, 1, s.S}) - start;                // [B, 1, 1, S]
  const at::Tensor i = query.floor_divide(size), j = key.floor_divide(size);

  const int64_t batches = std::max(listed.size(0), i.size(0)), last = std::max<int64_t>(0, listed.size(2) - 1);
  const at::Tensor row = i.clamp(0, last).expand({batches, listed.size(1), s.T, listed.size(3)});
  const at::Tensor lists = listed.expand({batches, -1, -1, -1}).gather(2, row);  // [B, H, T, R]
  const at::Tensor listings = lists.unsqueeze(3).eq(j.unsqueeze(-1)).sum(-1);    // [B, H, T, S]
  const at::Tensor once = j.eq(0).logical_or(j.eq(blocks - 1)).logical_or((i - j).abs().le(1));
  const at::Tensor counted = inside(query)
                                 .logical_and(inside(key))
                                 .logical_and(blocks.ge(least))
                                 .logical_and(i.ne(0))
                                 .logical_and(i.ne(blocks - 1));
  const at::Tensor times = (listings + once).clamp_min(1).to(scores.scalar_type());
  return scores + times.log().masked_fill(counted.logical_not(), 0);
}

std::vector<Score> sample_block_repeats(const AttentionShape& s) {
  if (s.T > s.S) return {};
  const auto listed = at::arange(s.H * s.S * 3).remainder(4).remainder(3).view({1, s.H, s.S, 3});
  const auto start = at::arange(s.B).clamp_max(s.S), lengths = (s.S - start - 1).clamp_min(0);
  return {scores::block_repeats({.size = 2, .least = 3, .listed = listed}),
          scores::block_repeats({.size = 1, .least = 4, .listed = listed.expand({s.B, -1, -1, -1})}),
          scores::block_repeats({.size = 1, .least = 6, .listed = listed.slice(1, 0, 1), .start = start}),
          scores::block_repeats({.size = 1, .least = 4, .listed = listed, .start = start, .lengths = lengths})};
}

}  // namespace

Score scores::block_repeats(const ListedBlocks& blocks) {
  FOVEA_CHECK(blocks.size >= 1 && blocks.least >= 1, "size is ", blocks.size, " and least ", blocks.least,
              ", wanted 1 or more");
  FOVEA_CHECK(blocks.listed.defined(), "listed is undefined, wanted [B or 1, H or 1, blocks, each]");
  std::vector<at::Tensor> data;  // scores carry floating numbers
  for (const at::Tensor& tensor : {blocks.listed, blocks.start, blocks.lengths})
    if (tensor.defined()) data.push_back(tensor.to(at::kFloat));
  const int64_t form = int64_t{blocks.start.defined()} + 2 * int64_t{blocks.lengths.defined()};
  return Score::term("block_repeats", {blocks.size, blocks.least, form}, std::move(data));
}

void register_scores_block_repeats(ScoresRegistry& registry) {
  registry.add("block_repeats", {.define = define_block_repeats,
                                 .bind = [](auto& numbers, auto& data, double, auto& s) -> ScoreVisitorPtr {
                                   check_slots(s);
                                   return std::make_shared<BlockRepeatsVisitor>(
                                       BlockLayout("scores::block_repeats", numbers, data, s), s.offset());
                                 },
                                 .samples = sample_block_repeats,
                                 .least_tensors = 1,
                                 .most_tensors = 3});
}

}  // namespace fovea
