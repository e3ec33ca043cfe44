// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/relative.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "fovea/scores/registry.h"

namespace fovea {
namespace {

class RelativeVisitor final : public ScoreVisitor {
 public:
  RelativeVisitor(const std::vector<ArrayView>& data, double scale, const AttentionShape& s)
      : data_(data), scale_(float(scale)), shift_(s.offset()), width_(s.D), reach_(data[0].size[0] / 2) {}

  void forward(const ScoreTile& t) const override {
    for (int64_t k = 0; k < t.keys; ++k) {
      for (int64_t q = 0; q < t.queries; ++q) {
        float sum = 0;
        for (int64_t d = 0; d < width_; ++d) sum += (t.query[q * width_ + d] + bias(t.h, d)) * table(row(t, q, k), t.h, d);
        t.values[k * t.stride + q] += scale_ * sum;
      }
    }
  }
  void backward(const ScoreTile& g, const ScoreTile&, float* const* own) const override {
    for (int64_t k = 0; k < g.keys; ++k) {
      for (int64_t q = 0; q < g.queries; ++q) {
        const float slope = scale_ * g.values[k * g.stride + q];
        const int64_t r = row(g, q, k);
        for (int64_t d = 0; d < width_; ++d) {
          const float toward_query = slope * table(r, g.h, d);
          g.query_gradient[q * width_ + d] += toward_query;
          if (own[0]) own[0][element(r, g.h, d)] += slope * (g.query[q * width_ + d] + bias(g.h, d));
          if (data_.size() > 1 && own[1]) own[1][g.h * width_ + d] += toward_query;
        }
      }
    }
  }
  bool reads_query() const override { return true; }
  ReducedAxes reduced_axes() const override { return {.head = data_.size() == 1 && data_[0].rank == 2}; }

 private:
  int64_t row(const ScoreTile& t, int64_t q, int64_t k) const {
    return std::clamp((t.k0 + k) - (t.q0 + q + shift_), -reach_, reach_) + reach_;
  }
  float table(int64_t r, int64_t h, int64_t d) const { return data_[0].rank == 2 ? data_[0].at<float>(r, d) : data_[0].at<float>(r, h, d); }
  int64_t element(int64_t r, int64_t h, int64_t d) const { return data_[0].rank == 2 ? r * width_ + d : (r * data_[0].size[1] + h) * width_ + d; }
  float bias(int64_t h, int64_t d) const { return data_.size() > 1 ? data_[1].at<float>(h, d) : 0.0f; }

  std::vector<ArrayView> data_;
  float scale_;
  int64_t shift_, width_, reach_;
};

template <class Sizes>
void check_relative(const Sizes& size, int64_t rank, const AttentionShape& s) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   (rank == 2 || (rank == 3 && size[1] == s.H)) && size[0] % 2 == 1 && size[rank - 1] == s.D,
                   "scores::relative: wanted a table [2·reach + 1, D] or [2·reach + 1, H, D] with H = ", s.H, ", D = ", s.D, ", got rank ", rank);
}

template <class Sizes>
void check_bias(const Sizes& size, int64_t rank, const AttentionShape& s) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, rank == 2 && size[0] == s.H && size[1] == s.D, "scores::relative: wanted a bias [H, D] = [", s.H,
                   ", ", s.D, "], got rank ", rank);
}

at::Tensor define_relative(const Score::Term& term, const at::Tensor& scores, const at::Tensor& query, double scale, const AttentionShape& s) {
  const at::Tensor& table = term.data[0];
  check_relative(table.sizes(), table.dim(), s);
  const int64_t reach = table.size(0) / 2;
  auto rows = table.to(scores.scalar_type());
  rows = rows.dim() == 2 ? rows.unsqueeze(0) : rows.transpose(0, 1);  // [H|1, R, D]
  auto q = query;
  if (term.data.size() > 1) {
    check_bias(term.data[1].sizes(), term.data[1].dim(), s);
    q = q + term.data[1].to(q.scalar_type()).unsqueeze(1);
  }
  const auto products = at::matmul(q, rows.transpose(-1, -2)) * scale;  // [B, H, T, R]
  const auto distance = at::arange(s.S).unsqueeze(0) - (at::arange(s.T) + s.offset()).unsqueeze(1);
  const auto index = (distance.clamp(-reach, reach) + reach).to(scores.device());  // [T, S]
  return scores + products.gather(-1, index.expand({scores.size(0), scores.size(1), s.T, s.S}));
}

}  // namespace

Score scores::relative(const at::Tensor& table, const at::Tensor& bias) {
  return Score::term("relative", {}, bias.defined() ? std::vector<at::Tensor>{table, bias} : std::vector<at::Tensor>{table});
}

void register_scores_relative(ScoresRegistry& registry) {
  registry.add("relative", {.define = define_relative,
                            .bind = [](auto&, auto& data, double scale, auto& s) -> ScoreVisitorPtr {
                              check_relative(data[0].size, data[0].rank, s);
                              if (data.size() > 1) check_bias(data[1].size, data[1].rank, s);
                              return std::make_shared<RelativeVisitor>(data, scale, s);
                            },
                            .samples =
                                [](auto& s) {
                                  const auto table = at::arange(7 * s.H * s.D, at::kFloat).sin().view({7, s.H, s.D});
                                  const auto bias = at::arange(s.H * s.D, at::kFloat).cos().view({s.H, s.D});
                                  return std::vector<Score>{scores::relative(table.select(1, 0)), scores::relative(table, bias)};
                                },
                            .most_tensors = 2});
}

}  // namespace fovea
