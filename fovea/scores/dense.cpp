// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/dense.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "fovea/scores/registry.h"

namespace fovea {
namespace {

class DenseVisitor final : public ScoreVisitor {
 public:
  // `bias` is `source` seen as [B, H, T, S]; the gradient has the source's shape, contiguous.
  DenseVisitor(ArrayView bias, const ArrayView& source) : bias_(bias) {
    int64_t step = 1;
    for (int axis = 3; axis >= 0; --axis) {
      const int from = axis - (4 - source.rank);
      const int64_t size = from < 0 ? 1 : source.size[from];
      own_stride_[axis] = size == 1 ? 0 : step;
      step *= size;
    }
  }

  void forward(const ScoreTile& t) const override {
    for (int64_t q = 0; q < t.queries; ++q) {  // along the bias's rows, which lie far apart
      const float* row = &bias_.at<float>(t.b, t.h, t.q0 + q, t.k0);
      for (int64_t k = 0; k < t.keys; ++k) t.values[k * t.stride + q] += row[k * bias_.stride[3]];
    }
  }
  void backward(const ScoreTile& g, const ScoreTile&, float* const* own) const override {
    if (!own[0]) return;
    float* base = own[0] + g.b * own_stride_[0] + g.h * own_stride_[1];
    for (int64_t q = 0; q < g.queries; ++q)
      for (int64_t k = 0; k < g.keys; ++k)
        base[(g.q0 + q) * own_stride_[2] + (g.k0 + k) * own_stride_[3]] += g.values[k * g.stride + q];
  }
  ReducedAxes reduced_axes() const override {
    return {own_stride_[0] == 0, own_stride_[1] == 0, own_stride_[2] == 0, own_stride_[3] == 0};
  }

 private:
  ArrayView bias_;
  int64_t own_stride_[4];
};

// The definition says no in the visitor's words.
void check_bias(const at::Tensor& bias, const AttentionShape& shape) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, bias.dim() <= 4, "scores::dense: bias has ", bias.dim(),
                   " axes; wanted up to four");
  ArrayView view{.rank = int(bias.dim())};
  std::copy(bias.sizes().begin(), bias.sizes().end(), view.size);
  view.as_scores("scores::dense: bias", shape);
}

}  // namespace

Score scores::dense(const at::Tensor& bias) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, bias.defined() && bias.is_floating_point(),
                   "scores::dense: wanted a floating tensor, got ",
                   bias.defined() ? toString(bias.scalar_type()) : "nothing",
                   "; a boolean mask goes through masks::allow or masks::block");
  return Score::term("dense", {}, {bias});
}

void register_scores_dense(ScoresRegistry& registry) {
  registry.add("dense",
               {.define =
                    [](auto& term, auto& scores, auto&, double, auto& s) {
                      const at::Tensor& bias = term.data[0];
                      check_bias(bias, s);
                      return scores + bias.to(scores.options().requires_grad(false));
                    },
                .bind = [](auto&, auto& data, double, auto& s) -> ScoreVisitorPtr {
                  return std::make_shared<DenseVisitor>(data[0].as_scores("scores::dense: bias", s), data[0]);
                },
                .samples =
                    [](auto& s) {
                      const auto full = at::arange(s.B * s.H * s.T * s.S, at::kFloat).sin().view({s.B, s.H, s.T, s.S});
                      auto hiding = full.select(0, 0).clone();
                      if (s.T > 0 && s.S > 0) hiding.select(-1, 0).fill_(-INFINITY);
                      return std::vector<Score>{scores::dense(full), scores::dense(full.select(0, 0)),
                                                scores::dense(hiding), scores::dense(full.select(1, 0).unsqueeze(1)),
                                                scores::dense(full.select(2, 0).unsqueeze(2))};
                    }});
}

}  // namespace fovea
