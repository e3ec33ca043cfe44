// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/slopes.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdlib>

#include "fovea/scores/registry.h"

namespace fovea {
namespace {

class SlopesVisitor final : public ScoreVisitor {
 public:
  SlopesVisitor(ArrayView slopes, int64_t shift) : slopes_(slopes), shift_(shift) {}

  void forward(const ScoreTile& t) const override {
    const float slope = slopes_.at<float>(t.h);
    for (int64_t k = 0; k < t.keys; ++k) {
      float* row = t.values + k * t.stride;
      const int64_t distance = t.q0 + shift_ - t.k0 - k;
      for (int64_t q = 0; q < t.queries; ++q) row[q] -= slope * float(std::abs(distance + q));
    }
  }
  // Summed in f64: the terms are large and of both signs.
  void backward(const ScoreTile& g, const ScoreTile&, float* const* own) const override {
    if (!own[0]) return;
    double sum = 0;
    for (int64_t k = 0; k < g.keys; ++k) {
      const float* row = g.values + k * g.stride;
      const int64_t distance = g.q0 + shift_ - g.k0 - k;
      for (int64_t q = 0; q < g.queries; ++q) sum -= double(row[q]) * double(std::abs(distance + q));
    }
    own[0][g.h] += float(sum);
  }
  ReducedAxes reduced_axes() const override { return {.head = false}; }

 private:
  ArrayView slopes_;
  int64_t shift_;
};

void check_slopes(int64_t rank, int64_t size, int64_t heads) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, rank == 1 && size == heads, "scores::slopes: wanted [H] = [", heads, "], got rank ", rank, " with ",
                   size, " elements");
}

}  // namespace

Score scores::slopes(const at::Tensor& slopes) { return Score::term("slopes", {}, {slopes}); }

void register_scores_slopes(ScoresRegistry& registry) {
  registry.add("slopes",
               {.define =
                    [](auto& term, auto& scores, auto&, double, auto& s) {
                      check_slopes(term.data[0].dim(), term.data[0].numel(), s.H);
                      const auto options = scores.options().requires_grad(false);
                      const auto q = at::arange(s.offset(), s.offset() + s.T, options).unsqueeze(1), k = at::arange(s.S, options);
                      return scores - term.data[0].to(scores.scalar_type()).view({s.H, 1, 1}) * (q - k).abs();
                    },
                .bind =
                    [](auto&, auto& data, double, auto& s) -> ScoreVisitorPtr {
                      check_slopes(data[0].rank, data[0].numel(), s.H);
                      return std::make_shared<SlopesVisitor>(data[0], s.offset());
                    },
                .samples = [](auto& s) { return std::vector<Score>{scores::slopes(at::arange(1, s.H + 1, at::kFloat) * 0.125)}; }});
}

}  // namespace fovea
