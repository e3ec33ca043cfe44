// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/reference.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/kernels/dropout.h"
#include "fovea/ops/bind.h"
#include "fovea/scores/registry.h"

namespace fovea {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many query rows to take at once so that rows · S · width stays near 2²² numbers.
int64_t rows_per_chunk(const Tensor& visible, int64_t width) {
  const int64_t per_row = std::max<int64_t>(1, visible.size(0) * visible.size(1) * visible.size(3) * width);
  return std::max<int64_t>(1, (int64_t{1} << 22) / per_row);
}

// A hidden key does not exist: where K or V may hold NaN or infinity, products with hidden keys must not even multiply by
// zero. These two select first, [b, H, t, S, width] at a time; slow, and only for such inputs.
Tensor selected_scores(const Tensor& query, const Tensor& key, const Tensor& visible) {
  std::vector<Tensor> out;
  const int64_t rows = rows_per_chunk(visible, query.size(3));
  for (int64_t q = 0; q < query.size(2); q += rows) {
    const int64_t count = std::min(rows, query.size(2) - q);
    const auto keys = key.unsqueeze(2).where(visible.narrow(2, q, count).unsqueeze(-1), 0);  // [b, H, t, S, D]
    out.push_back((query.narrow(2, q, count).unsqueeze(3) * keys).sum(-1));                  // [b, H, t, S]
  }
  return at::cat(out, 2);
}

Tensor selected_output(const Tensor& weights, const Tensor& value, const Tensor& visible) {
  std::vector<Tensor> out;
  const int64_t rows = rows_per_chunk(visible, value.size(3));
  for (int64_t q = 0; q < weights.size(2); q += rows) {
    const int64_t count = std::min(rows, weights.size(2) - q);
    const auto values = value.unsqueeze(2).where(visible.narrow(2, q, count).unsqueeze(-1), 0);  // [b, H, t, S, E]
    out.push_back((weights.narrow(2, q, count).unsqueeze(-1) * values).sum(3));                  // [b, H, t, E]
  }
  return at::cat(out, 2);
}

// ln Σ exp(score); −∞ where nothing is visible, with a zero gradient there.
Tensor log_sum_exp(const Tensor& scores) {
  if (scores.size(-1) == 0) return scores.sum(-1) - kInfinity;
  const auto peak = scores.detach().amax(-1, true);
  const auto blind = peak.eq(-kInfinity);  // rows that see nothing
  const auto sum = (scores - peak.masked_fill(blind, 0)).exp().sum(-1, true);
  return (sum.masked_fill(blind, 1).log() + peak).squeeze(-1);
}

// The safe softmax gives zeros, not NaN, for a row that sees nothing; it takes three passes more.
Tensor softmax(const Tensor& scores, bool blind_rows) {
  if (scores.numel() == 0) return scores;
  return blind_rows ? at::_safe_softmax(scores, -1) : at::softmax(scores, -1);
}

// May some query see nothing at all?
bool may_be_blind(const AttentionCall& call, const Tensor& visible) {
  if (!call.score.is_empty()) return true;  // a bias may hold −∞
  return visible.defined() && !visible.any(-1).all().item<bool>();
}

// May query, key or value hold NaN or infinity? (A sum that overflows is a false alarm, which only costs time.)
bool holds_nonfinite(const AttentionCall& call) {
  const auto finite = [](const Tensor& x) { return std::isfinite(x.detach().sum().item<double>()); };
  return !finite(call.query) || !finite(call.key) || !finite(call.value);
}

}  // namespace

Tensor spread_heads(const Tensor& x, int64_t heads) {
  const int64_t groups = x.size(1);
  if (groups == heads) return x;
  return x.unsqueeze(2).expand({x.size(0), groups, heads / groups, x.size(2), x.size(3)}).reshape({x.size(0), heads, x.size(2), x.size(3)});
}

Tensor visible_of(const AttentionCall& call) {
  if (call.mask.is_full()) return {};
  return visible(call.mask, call.shape, call.first_batch, call.query.size(0)).to(call.query.device());
}

Tensor define_term(const Score::Term& term, const Tensor& scores, const AttentionCall& call) {
  if (term.user) return define_user_score(term, scores, call.first_batch);
  return scores_registry().at(term.name).define(term, scores, call.query.to(scores.scalar_type()), call.scale, call.shape);
}

Tensor dropout_factors(const AttentionCall& call, const Tensor& like) {
  auto out = at::zeros(like.sizes(), like.options().device(at::kCPU).dtype(at::kFloat).requires_grad(false));
  const AttentionDropout dropout(call.dropout, uint64_t(call.dropout_seed));
  const int64_t H = out.size(1), T = out.size(2), S = out.size(3);
  const float kept = float(1.0 / (1.0 - call.dropout));
  float* data = out.data_ptr<float>();
  at::parallel_for(0, out.size(0) * H * T, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = call.first_batch + row / (H * T), h = row / T % H, q = row % T;
      PhiloxBlock block{};
      for (int64_t k = 0; k < S; ++k) {
        if (k % 16 == 0) block = dropout.block(b, h, q, k);
        if (dropout.kept(block, k)) data[row * S + k] = kept;
      }
    }
  });
  return out.to(like.options().requires_grad(false));
}

AttentionResult reference_attention(const AttentionCall& call, const Tensor& mask, bool want_log_sum_exp) {
  const auto type = call.query.scalar_type();
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;  // everything accumulates in f32 or better
  const Tensor query = call.query.to(wide);                                // [b, H, T, D]
  const Tensor key = spread_heads(call.key.to(wide), call.shape.H);        // [b, H, S, D]
  const Tensor value = spread_heads(call.value.to(wide), call.shape.H);    // [b, H, S, E]

  // What hides keys: the mask, and a bias of −∞. The latter needs finding only where NaN or infinity must be kept out.
  const bool restricted = !call.mask.is_full() || !call.score.is_empty();
  const bool select = restricted && holds_nonfinite(call);
  Tensor visible = mask;  // bool [b|1, H|1, T, S]
  if (select) {
    auto bias = at::zeros({query.size(0), call.shape.H, call.shape.T, call.shape.S}, query.options().requires_grad(false));
    AttentionCall plain = call;  // a bias that reads the query must not read NaN here
    plain.query = at::zeros_like(call.query.detach());
    for (const auto& term : call.score.terms()) bias = define_term(*term, bias.detach(), plain);
    visible = visible.defined() ? visible & bias.ne(-kInfinity) : bias.ne(-kInfinity);
  }

  Tensor scores = select ? selected_scores(query * call.scale, key, visible)
                         : at::matmul(query * call.scale, key.transpose(-1, -2));  // [b, H, T, S]
  if (call.soft_cap > 0) scores = (scores / call.soft_cap).tanh() * call.soft_cap;
  for (const auto& term : call.score.terms()) scores = define_term(*term, scores, call);
  if (visible.defined()) scores = scores.masked_fill(visible.logical_not(), -kInfinity);

  AttentionResult out;
  const Tensor weights = softmax(scores, may_be_blind(call, visible));  // [b, H, T, S]
  const Tensor dropped = call.dropout > 0 ? weights * dropout_factors(call, weights) : weights;
  out.output = (select ? selected_output(dropped, value, visible) : at::matmul(dropped, value)).to(type);  // [b, H, T, E]
  out.weights = weights.to(type);
  if (want_log_sum_exp) out.log_sum_exp = log_sum_exp(scores);
  return out;
}

}  // namespace fovea
