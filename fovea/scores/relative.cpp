// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/relative.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "fovea/scores/registry.h"

namespace fovea {
namespace {

// Eight sums side by side: a single one would wait for itself.
float dot(const float* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 8;
  float lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

void add_scaled(float* to, const float* from, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

class RelativeVisitor final : public ScoreVisitor {
 public:
  RelativeVisitor(const std::vector<ArrayView>& data, double scale, const AttentionShape& s)
      : scale_(float(scale)),
        shift_(s.offset()),
        width_(s.D),
        rows_(data[0].size[0]),
        tables_(data[0].rank == 3 ? s.H : 1) {
    table_.reserve(size_t(tables_ * rows_ * width_));
    for (int64_t h = 0; h < tables_; ++h)
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t d = 0; d < width_; ++d)
          table_.push_back(data[0].rank == 3 ? data[0].at<float>(r, h, d) : data[0].at<float>(r, d));
    if (data.size() > 1)
      for (int64_t h = 0; h < s.H; ++h)
        for (int64_t d = 0; d < width_; ++d) bias_.push_back(data[1].at<float>(h, d));
  }

  void forward(const ScoreTile& t) const override {
    std::vector<float> biased(size_t(width_), 0.0f);
    for (int64_t q = 0; q < t.queries; ++q) {
      add_bias(t, q, biased);
      for (int64_t k = 0; k < t.keys; ++k)
        t.values[k * t.stride + q] += scale_ * dot(biased.data(), table(row(t, q, k), t.h), width_);
    }
  }
  void backward(const ScoreTile& g, const ScoreTile&, float* const* own) const override {
    std::vector<float> biased(size_t(width_), 0.0f), toward(size_t(width_), 0.0f);
    for (int64_t q = 0; q < g.queries; ++q) {
      add_bias(g, q, biased);
      std::fill(toward.begin(), toward.end(), 0.0f);
      for (int64_t k = 0; k < g.keys; ++k) {
        const float slope = scale_ * g.values[k * g.stride + q];
        if (slope == 0) continue;  // most often: a hidden pair
        const int64_t r = row(g, q, k);
        add_scaled(toward.data(), table(r, g.h), slope, width_);
        if (own[0]) add_scaled(own[0] + element(r, g.h), biased.data(), slope, width_);
      }
      add_scaled(g.query_gradient + q * width_, toward.data(), 1, width_);
      if (!bias_.empty() && own[1]) add_scaled(own[1] + g.h * width_, toward.data(), 1, width_);
    }
  }
  bool reads_query() const override { return true; }
  ReducedAxes reduced_axes() const override { return {.head = bias_.empty() && tables_ == 1}; }

 private:
  int64_t row(const ScoreTile& t, int64_t q, int64_t k) const {
    const int64_t reach = rows_ / 2;
    return std::clamp((t.k0 + k) - (t.q0 + q + shift_), -reach, reach) + reach;
  }
  // The query and its head's bias.
  void add_bias(const ScoreTile& t, int64_t q, std::vector<float>& out) const {
    std::copy_n(t.query + q * width_, width_, out.begin());
    if (!bias_.empty()) add_scaled(out.data(), bias_.data() + t.h * width_, 1, width_);
  }
  const float* table(int64_t r, int64_t h) const { return table_.data() + ((tables_ == 1 ? 0 : h) * rows_ + r) * width_; }
  // Where a row's gradient stands, in the tensor's own order.
  int64_t element(int64_t r, int64_t h) const { return tables_ == 1 ? r * width_ : (r * tables_ + h) * width_; }

  float scale_;
  int64_t shift_, width_, rows_, tables_;
  std::vector<float> table_;  // [H or 1, rows, D]
  std::vector<float> bias_;   // [H, D] or empty
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
