// Attention over tiles in scalar code: the smallest program that runs masks and scores the way the kernels do (tile form,
// online softmax, recomputation backward). The conformance tests hold it against the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fovea/ops/attention.h"
#include "fovea/ops/bind.h"

namespace fovea::testing {

struct TileGradients {
  at::Tensor output, query, key, value;
  std::vector<std::vector<at::Tensor>> learned;  // [term][parameter]
};

class TileLoop {
 public:
  TileLoop(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& output_gradient, const AttentionOptions& options)
      : q_(q), k_(k), v_(v), d_out_(output_gradient), shape_{q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)},
        scale_(float(options.scale.value_or(1.0 / std::sqrt(double(shape_.D))))), mask_(bind_mask(options.mask, shape_)) {
    for (const auto& term : options.score.terms()) {
      visitors_.push_back(bind_score(*term, scale_, shape_));
      out_.learned.emplace_back();
      for (const auto& tensor : term->data) out_.learned.back().push_back(at::zeros(tensor.sizes(), at::kFloat));
    }
    out_.output = at::zeros({shape_.B, shape_.H, shape_.T, shape_.E});
    out_.query = at::zeros_like(q_), out_.key = at::zeros_like(k_), out_.value = at::zeros_like(v_);
  }

  TileGradients run() {
    for (int64_t b = 0; b < shape_.B; ++b)
      for (int64_t h = 0; h < shape_.H; ++h)
        for (int64_t q0 = 0; q0 < shape_.T; q0 += kQueries) query_tile(b, h, q0, std::min(kQueries, shape_.T - q0));
    return out_;
  }

 private:
  static constexpr int64_t kQueries = 4, kKeys = 5;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  const float* row(const at::Tensor& x, int64_t b, int64_t h, int64_t i) const {
    return x.data_ptr<float>() + ((b * x.size(1) + h) * x.size(2) + i) * x.size(3);
  }
  float* row(at::Tensor& x, int64_t b, int64_t h, int64_t i) const { return const_cast<float*>(row(std::as_const(x), b, h, i)); }
  static float dot(const float* a, const float* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(a[i]) * b[i];
    return float(sum);
  }

  // Scores of one tile after all visitors and the mask; `before[i]` keeps what visitor i saw.
  std::vector<float> scores(const ScoreTile& tile, std::vector<std::vector<float>>& before) const {
    const int64_t g = tile.h * shape_.G / shape_.H;
    std::vector<float> values(size_t(tile.queries * tile.keys));
    for (int64_t k = 0; k < tile.keys; ++k)
      for (int64_t q = 0; q < tile.queries; ++q)
        values[size_t(k * tile.queries + q)] = scale_ * dot(row(q_, tile.b, tile.h, tile.q0 + q), row(k_, tile.b, g, tile.k0 + k), shape_.D);
    ScoreTile seen = tile;
    seen.values = values.data();
    for (const auto& visitor : visitors_) {
      before.push_back(values);
      visitor.object->forward(seen);
    }
    const Tile where{tile.b, tile.h, tile.q0, tile.q0 + tile.queries, tile.k0, tile.k0 + tile.keys};
    if (mask_.object->cover(where) == Cover::kPartial) {
      std::vector<uint8_t> visible(values.size());
      mask_.object->fill(where, visible.data(), tile.keys);
      for (int64_t k = 0; k < tile.keys; ++k)
        for (int64_t q = 0; q < tile.queries; ++q)
          if (!visible[size_t(q * tile.keys + k)]) values[size_t(k * tile.queries + q)] = -kInfinity;
    }
    return values;
  }

  template <class Visit>
  void for_each_tile(int64_t b, int64_t h, int64_t q0, int64_t queries, const Visit& visit) {
    for (int64_t k0 = 0; k0 < shape_.S; k0 += kKeys) {
      const int64_t keys = std::min(kKeys, shape_.S - k0);
      if (mask_.object->cover({b, h, q0, q0 + queries, k0, k0 + keys}) == Cover::kSkip) continue;
      visit(ScoreTile{b, h, q0, k0, queries, keys, nullptr, queries, row(q_, b, h, q0), row(out_.query, b, h, q0)});
    }
  }

  void query_tile(int64_t b, int64_t h, int64_t q0, int64_t queries) {
    const int64_t g = h * shape_.G / shape_.H;
    std::vector<float> peak(size_t(queries), -kInfinity), sum(size_t(queries), 0.0f);
    for_each_tile(b, h, q0, queries, [&](const ScoreTile& tile) {
      std::vector<std::vector<float>> before;
      const auto s = scores(tile, before);
      for (int64_t q = 0; q < queries; ++q) {
        float top = peak[size_t(q)];
        for (int64_t k = 0; k < tile.keys; ++k) top = std::max(top, s[size_t(k * queries + q)]);
        if (top == -kInfinity) continue;  // nothing visible yet
        const float rescale = std::exp(peak[size_t(q)] - top);
        sum[size_t(q)] *= rescale;
        float* out = row(out_.output, b, h, q0 + q);
        for (int64_t e = 0; e < shape_.E; ++e) out[e] *= rescale;
        for (int64_t k = 0; k < tile.keys; ++k) {
          const float p = std::exp(s[size_t(k * queries + q)] - top);
          sum[size_t(q)] += p;
          for (int64_t e = 0; p > 0 && e < shape_.E; ++e) out[e] += p * row(v_, b, g, tile.k0 + k)[e];
        }
        peak[size_t(q)] = top;
      }
    });
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t e = 0; sum[size_t(q)] > 0 && e < shape_.E; ++e) row(out_.output, b, h, q0 + q)[e] /= sum[size_t(q)];
    backward(b, h, q0, queries, peak, sum);
  }

  void backward(int64_t b, int64_t h, int64_t q0, int64_t queries, const std::vector<float>& peak, const std::vector<float>& sum) {
    const int64_t g = h * shape_.G / shape_.H;
    for_each_tile(b, h, q0, queries, [&](const ScoreTile& tile) {
      std::vector<std::vector<float>> before;
      const auto s = scores(tile, before);
      std::vector<float> gradient(s.size());
      for (int64_t k = 0; k < tile.keys; ++k) {
        for (int64_t q = 0; q < queries; ++q) {
          const size_t i = size_t(k * queries + q);
          const float* d_out = row(d_out_, b, h, q0 + q);
          const float p = sum[size_t(q)] > 0 ? std::exp(s[i] - peak[size_t(q)]) / sum[size_t(q)] : 0.0f;
          const float delta = dot(d_out, row(out_.output, b, h, q0 + q), shape_.E);
          gradient[i] = p * (dot(d_out, row(v_, b, g, tile.k0 + k), shape_.E) - delta);
          for (int64_t e = 0; e < shape_.E; ++e) row(out_.value, b, g, tile.k0 + k)[e] += p * d_out[e];
        }
      }
      ScoreTile toward = tile;
      toward.values = gradient.data();
      for (size_t i = visitors_.size(); i-- > 0;) {
        std::vector<float*> own;
        for (auto& tensor : out_.learned[i]) own.push_back(tensor.data_ptr<float>());
        ScoreTile seen = tile;
        seen.values = before[i].data();
        visitors_[i].object->backward(toward, seen, own.data());
      }
      for (int64_t k = 0; k < tile.keys; ++k)
        for (int64_t q = 0; q < queries; ++q)
          for (int64_t d = 0; d < shape_.D; ++d) {
            const float slope = scale_ * gradient[size_t(k * queries + q)];
            row(out_.query, b, h, q0 + q)[d] += slope * row(k_, b, g, tile.k0 + k)[d];
            row(out_.key, b, g, tile.k0 + k)[d] += slope * row(q_, b, h, q0 + q)[d];
          }
    });
  }

  at::Tensor q_, k_, v_, d_out_;
  AttentionShape shape_;
  float scale_;
  Bound<MaskRulePtr> mask_;
  std::vector<Bound<ScoreVisitorPtr>> visitors_;
  TileGradients out_;
};

}  // namespace fovea::testing
