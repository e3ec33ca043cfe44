// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/linear.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "fovea/attention/variants/key_mask.h"
#include "fovea/attention/variants/registry.h"
#include "fovea/base/check.h"

namespace fovea {
namespace {

// Long enough for products that fill a core, short against any text that is slow.
constexpr int64_t kChunk = 64;

// φ(x) = elu(x) + 1 > 0.
Tensor features(const Tensor& x) { return at::elu(x) + 1; }

// What the sums are made of. The values carry a column of ones, whose sum is the denominator.
struct Features {
  Tensor query;   // [B, G, H/G, T, D]
  Tensor key;     // [B, G, S, D], 0 for keys that do not exist
  Tensor value;   // [B, G, S, E + 1]
  Tensor broken;  // bool [B, G, S], keys that hold NaN or infinity; undefined: none
  bool causal = false;
};

void check_linear(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& o) {
  const bool shaped = query.dim() == 4 && key.dim() == 4 && value.dim() == 4;
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   shaped && key.size(0) == query.size(0) && value.size(0) == key.size(0) &&
                       value.size(1) == key.size(1) && value.size(2) == key.size(2) && key.size(3) == query.size(3) &&
                       key.size(1) > 0 && query.size(1) % key.size(1) == 0,
                   "linear attention: query is ", query.sizes(), ", key ", key.sizes(), ", value ", value.sizes(),
                   "; wanted [B, H, T, D], [B, G, S, D] and [B, G, S, E], G a divisor of H");
  FOVEA_CHECK_KIND(
      ErrorKind::kArgument, o.score.is_empty() && o.soft_cap == 0 && !o.scale,
      "linear attention: it has no scores to add a bias to, to scale or to cap; take positions that are added "
      "to the embeddings");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, o.dropout == 0, "linear attention: dropout is ", o.dropout,
                   ", but it has no weights to drop; wanted 0");
}

// `past`: tokens of the cache before these.
Features features_of(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                     int64_t past) {
  check_linear(query, key, value, options);
  const int64_t B = query.size(0), H = query.size(1), G = key.size(1), T = query.size(2), S = key.size(2);
  const auto type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const KeyMask mask = key_mask("linear", options.mask, {B, H, G, T, past + S, query.size(3), value.size(3)});
  Features out{.causal = mask.causal};
  Tensor k = key.to(type), v = value.to(type);
  // What does not exist is taken out before it is computed with: even its gradient may be NaN.
  Tensor gone;  // [B, 1|G, S]
  if (mask.real.defined()) {
    gone = mask.real.slice(1, past).logical_not().unsqueeze(1).to(key.device());
    k = k.masked_fill(gone.unsqueeze(-1), 0);
    v = v.masked_fill(gone.unsqueeze(-1), 0);
  }
  if (const Tensor sums = (k.detach().sum(-1) + v.detach().sum(-1)); !std::isfinite(sums.sum().item<double>())) {
    out.broken = sums.isfinite().logical_not();  // [B, G, S]
    k = k.masked_fill(out.broken.unsqueeze(-1), 0);
    v = v.masked_fill(out.broken.unsqueeze(-1), 0);
  }
  out.query = features(query.to(type)).unflatten(1, {G, H / G});
  out.key = features(k);
  if (gone.defined()) out.key = out.key.masked_fill(gone.unsqueeze(-1), 0);
  if (out.broken.defined()) out.key = out.key.masked_fill(out.broken.unsqueeze(-1), 0);
  out.value = at::cat({v, at::ones({B, G, S, 1}, v.options())}, -1);
  return out;
}

// Σ φ(k) vᵀ of everything: [B, G, D, E + 1].
Tensor whole_sum(const Features& f) { return at::matmul(f.key.transpose(-1, -2), f.value); }

// The same for every query: [B, G, H/G, T, E + 1].
Tensor sums_of_all(const Features& f, const Tensor& sum) {
  return at::matmul(f.query, sum.to(f.query.scalar_type()).unsqueeze(2));
}

// A single newest query sees all keys anyway.
bool in_order(const Features& f) { return f.causal && f.query.size(3) > 1; }

// x [B, G, …, n, W] with rows of zeros behind (or, negative, in front of) its n.
Tensor with_rows(const Tensor& x, int64_t count) {
  if (count == 0) return x;
  return at::constant_pad_nd(x, {0, 0, std::max<int64_t>(0, -count), std::max<int64_t>(0, count)});
}

// Query i with the sums over keys up to S − T + i, and `past` (f64) before all: [B, G, H/G, T, E + 1].
Tensor causal_sums(const Features& f, Tensor past) {
  const int64_t T = f.query.size(3), S = f.key.size(2);
  Tensor key = f.key, value = f.value;
  if (S > T) {  // the first ones are seen by all queries
    const Tensor first = at::matmul(key.narrow(2, 0, S - T).transpose(-1, -2), value.narrow(2, 0, S - T));
    past = past.defined() ? past + first : first;
    key = key.narrow(2, S - T, T);
    value = value.narrow(2, S - T, T);
  }
  key = with_rows(key, S - T < 0 ? S - T : 0);  // the first queries see none
  value = with_rows(value, S - T < 0 ? S - T : 0);
  const int64_t C = std::min(T, kChunk), N = (T + C - 1) / C, missing = N * C - T;
  const Tensor q = with_rows(f.query, missing).unflatten(3, {N, C});               // [B, G, H/G, N, C, D]
  const Tensor k = with_rows(key, missing).unflatten(2, {N, C}).unsqueeze(2);      // [B, G, 1, N, C, D]
  const Tensor v = with_rows(value, missing).unflatten(2, {N, C}).unsqueeze(2);    // [B, G, 1, N, C, E + 1]
  const Tensor inside = at::matmul(at::matmul(q, k.transpose(-1, -2)).tril(), v);  // [B, G, H/G, N, C, E + 1]
  Tensor sums = inside;
  if (N > 1 || past.defined()) {
    const Tensor of_chunks = at::matmul(k.transpose(-1, -2), v);  // [B, G, 1, N, D, E + 1]
    const Tensor start = past.defined() ? past.unsqueeze(2).unsqueeze(3) : at::zeros_like(of_chunks.narrow(3, 0, 1));
    const Tensor before = at::cat({start, of_chunks.narrow(3, 0, N - 1)}, 3).cumsum(3);  // adds in f64
    sums = sums + at::matmul(q, before.to(q.scalar_type()));
  }
  return sums.flatten(3, 4).narrow(3, 0, T);
}

// Rows of queries that see a broken key: bool [B, G, 1, T], undefined where none can.
Tensor broken_rows(const Features& f) {
  if (!f.broken.defined()) return {};
  const int64_t T = f.query.size(3), S = f.key.size(2);
  if (!f.causal) return f.broken.any(-1, true).unsqueeze(2).expand({-1, -1, 1, T});
  Tensor seen = f.broken.to(at::kLong).cumsum(-1).gt(0);  // [B, G, S]
  seen = S >= T ? seen.narrow(2, S - T, T) : at::constant_pad_nd(seen, {T - S, 0});
  return seen.unsqueeze(2);
}

// Numerator and denominator -> [B, H, T, E] in `type`.
Tensor quotient(const Features& f, const Tensor& sums, at::ScalarType type) {
  const int64_t E = sums.size(-1) - 1;
  const Tensor below = sums.narrow(-1, E, 1);
  Tensor out = sums.narrow(-1, 0, E) / below.masked_fill(below.eq(0), 1);
  if (const Tensor rows = broken_rows(f); rows.defined())
    out = out.masked_fill(rows.unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
  return out.flatten(1, 2).to(type);
}

}  // namespace

Tensor LinearVariantImpl::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                 const AttentionOptions& options) const {
  const Features f = features_of(query, key, value, options, 0);
  return quotient(f, in_order(f) ? causal_sums(f, {}) : sums_of_all(f, whole_sum(f)), query.scalar_type());
}

Tensor LinearVariantImpl::attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                                        const AttentionOptions& options) const {
  const Features f = features_of(query, key, value, options, cache.length());
  const Tensor& past = cache.state();
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !past.defined() || past.size(0) == query.size(0),
                   "linear attention: the cache holds ", past.defined() ? past.size(0) : 0, " rows, ", query.size(0),
                   " came");
  // In f64: f32 loses of each token what is small against the sum, the same part again and again.
  const Tensor after = past.defined() ? past + whole_sum(f) : whole_sum(f).to(at::kDouble);
  const Tensor out = quotient(f, in_order(f) ? causal_sums(f, past) : sums_of_all(f, after), query.scalar_type());
  cache.set_state(f.broken.defined() ? after.masked_fill(f.broken.any(-1).unsqueeze(-1).unsqueeze(-1),
                                                         std::numeric_limits<double>::quiet_NaN())
                                     : after,
                  cache.length() + query.size(2));
  return out;
}

AttentionResult LinearVariantImpl::attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                   const AttentionOptions& options) const {
  const Features f = features_of(query, key, value, options, 0);
  const int64_t T = query.size(2), S = key.size(2);
  Tensor weights = at::matmul(f.query, f.key.unsqueeze(2).transpose(-1, -2));  // [B, G, H/G, T, S]
  if (f.causal) weights = weights.tril(S - T);
  const Tensor below = weights.sum(-1, true);
  AttentionResult out;
  out.output = attend(query, key, value, options);
  out.weights = (weights / below.masked_fill(below.eq(0), 1)).flatten(1, 2).to(query.scalar_type());
  out.log_sum_exp = below.squeeze(-1).flatten(1, 2).log();
  return out;
}

AttentionResult LinearVariantImpl::attend_cached_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          LayerCache& cache, const AttentionOptions& options) const {
  FOVEA_CHECK_KIND(
      ErrorKind::kArgument, cache.empty(), "linear attention: weights after ", cache.length(),
      " cached tokens were asked for; the cache holds their sum, not their keys: run the whole text at once");
  AttentionResult out = attend_detailed(query, key, value, options);
  out.output = attend_cached(query, key, value, cache, options);
  return out;
}

void register_variants_linear(VariantsRegistry& registry) {
  registry.add("linear", {.make = [](auto&) { return std::make_shared<LinearVariantImpl>(); }, .scored = false});
}

}  // namespace fovea
