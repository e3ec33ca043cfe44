// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/longformer.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/attention/variants/registry.h"
#include "fovea/base/check.h"
#include "fovea/layers/linear.h"
#include "fovea/ops/bind.h"

namespace fovea {
namespace {

// A mask, asked for chosen queries only: query n of row b stands at places[b][n]; −1: there is none, and it sees
// nothing. With more than one head folded into the queries, query n · heads + h is that of head h.
class ChosenQueriesRule final : public MaskRule {
 public:
  ChosenQueriesRule(Bound<MaskRulePtr> all, const Tensor& places, int64_t folded_heads)
      : all_(std::move(all)), folded_heads_(folded_heads) {
    const auto values = places.accessor<int64_t, 2>();
    for (int64_t b = 0; b < values.size(0); ++b) {
      places_.emplace_back();
      for (int64_t n = 0; n < values.size(1); ++n) places_.back().push_back(values[b][n]);
    }
  }

  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override {
    return place(b, q) >= 0 && all_.object->allowed(b, head(h, q), place(b, q), k);
  }
  Cover cover(const Tile& t) const override {
    bool any = false, all = true;
    for (int64_t q = t.q0; q < t.q1; ++q) {
      const Cover row = place(t.b, q) < 0 ? Cover::kSkip : all_.object->cover(row_of(t, q));
      any |= row != Cover::kSkip;
      all &= row == Cover::kFull;
    }
    return all ? Cover::kFull : any ? Cover::kPartial : Cover::kSkip;
  }
  void fill(const Tile& t, uint8_t* visible, int64_t stride) const override {
    for (int64_t q = t.q0; q < t.q1; ++q, visible += stride) {
      if (place(t.b, q) < 0) {
        std::fill(visible, visible + (t.k1 - t.k0), uint8_t{0});
      } else {
        all_.object->fill(row_of(t, q), visible, stride);
      }
    }
  }
  bool depends_on_batch() const override { return true; }
  bool depends_on_head() const override { return folded_heads_ == 1 && all_.object->depends_on_head(); }

 private:
  int64_t place(int64_t b, int64_t q) const { return places_[size_t(b)][size_t(q / folded_heads_)]; }
  int64_t head(int64_t h, int64_t q) const { return folded_heads_ > 1 ? q % folded_heads_ : h; }
  Tile row_of(const Tile& t, int64_t q) const {
    return {t.b, head(t.h, q), place(t.b, q), place(t.b, q) + 1, t.k0, t.k1};
  }

  Bound<MaskRulePtr> all_;
  int64_t folded_heads_;
  std::vector<std::vector<int64_t>> places_;
};

Mask for_queries(const Mask& mask, const Tensor& places, const AttentionShape& shape, int64_t folded_heads) {
  auto rule = std::make_shared<ChosenQueriesRule>(bind_mask(mask, shape), places, folded_heads);
  return Mask({.name = "rule", .rule = std::move(rule)});
}

// [B, T, heads · width] -> [B, heads, T, width]
Tensor split_tokens(const Tensor& x, int64_t heads, int64_t width) {
  return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2);
}

// The rows of a projection by head, [heads, width, C] or, with its bias as a last column, [heads, width, C + 1].
Tensor rows_by_head(const torch::nn::Linear& projection, int64_t kv_heads, int64_t heads) {
  const Tensor rows =
      projection->bias.defined() ? at::cat({projection->weight, projection->bias.unsqueeze(1)}, 1) : projection->weight;
  return rows.unflatten(0, {kv_heads, -1}).repeat_interleave(heads / kv_heads, 0);
}

}  // namespace

// The K global tokens of a batch, and their places in [B, N], N being the most that a row has.
struct LongformerVariantImpl::GlobalRows {
  Tensor row, place, slot;  // [K]: of the batch, among the row's tokens, among its global ones
  Tensor places;            // [B, N], −1 behind a row's last

  explicit GlobalRows(const Tensor& global) {
    const Tensor found = global.cpu().nonzero();  // [K, 2]
    row = found.select(1, 0), place = found.select(1, 1);
    const Tensor count = global.cpu().sum(1);  // [B]
    slot = at::arange(row.size(0)) - (count.cumsum(0) - count).index_select(0, row);
    const int64_t most = row.size(0) > 0 ? count.max().item<int64_t>() : 0;
    places = at::full({global.size(0), most}, -1, at::kLong).index_put({row, slot}, place);
  }
  bool any() const { return row.size(0) > 0; }
  // All [B, H, T, …] with the global tokens' rows from `some` [B, H, N, …].
  Tensor join(const Tensor& all, const Tensor& some) const {
    const Tensor rows = some.transpose(1, 2).index({row, slot});               // [K, H, …]
    return all.transpose(1, 2).index_put({row, place}, rows).transpose(1, 2);  // [B, H, T, …]
  }
};

LongformerVariantImpl::LongformerVariantImpl(const VariantOptions& options) : options_(options) {
  const auto& o = options_;
  FOVEA_CHECK_CONFIG(o.width > 0, "longformer: the width of the tokens is unknown; its projections need it");
  query = register_module("query", make_linear(o.width, o.heads * o.head_width, o.bias));
  key = register_module("key", make_linear(o.width, o.kv_heads * o.head_width, o.bias));
  value = register_module("value", make_linear(o.width, o.kv_heads * o.value_width, o.bias));
}

Tensor LongformerVariantImpl::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttentionOptions& options) const {
  return attention(query, key, value, options);
}

AttentionResult LongformerVariantImpl::attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       const AttentionOptions& options) const {
  return attention_detailed(query, key, value, options);
}

// The call for the tokens that are not global, and where some are, the one for those. A few global tokens would leave
// most of the work to projecting all others for them; then the projections go to the other side of each product,
//
//   q' · (W x + b) = (Wᵀ q') · x + q' · b        Σ p (W x + b) = W (Σ p x) + b Σ p
//
// so that all heads share the tokens themselves, with a 1 at their end for b, as keys and values.
struct LongformerVariantImpl::Split {
  AttentionOptions local, global;
  std::optional<GlobalRows> rows;
  Tensor query, key, value;  // [B, H, N, D], [B, G, T, D], [B, G, T, E]; shared: [B, 1, N·H, C′], twice [B, 1, T, C′]
  Tensor shared_value_rows;  // [H, E, C′], or undefined where nothing is shared

  // Of what was computed by query, [B, H, N, …].
  Tensor by_head(const Tensor& y, int64_t heads) const {
    return shared_value_rows.defined() ? y.squeeze(1).unflatten(1, {-1, heads}).transpose(1, 2) : y;
  }
  Tensor output(const Tensor& y, int64_t heads) const {  // [B, H, N, E]
    return shared_value_rows.defined() ? at::matmul(by_head(y, heads), shared_value_rows.transpose(1, 2)) : y;
  }
};

LongformerVariantImpl::Split LongformerVariantImpl::split(const VariantTokens& tokens, const Tensor& q, const Tensor& k,
                                                          const AttentionOptions& options) const {
  Split out{options, options};
  out.local.mask = options.mask & tokens.local;
  if (!tokens.global.defined()) return out;
  const GlobalRows rows(tokens.global);
  if (!rows.any()) return out;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, options.score.is_empty(),
                   "longformer: a score bias does not go with global tokens");
  const auto& o = options_;
  const Tensor& x = tokens.x;
  const int64_t most = rows.places.size(1);
  const bool share = 2 * most * o.heads <= o.kv_heads * (o.head_width + o.value_width);
  const AttentionShape shape{x.size(0), o.heads, o.kv_heads, q.size(2), k.size(2), o.head_width, o.value_width};
  out.rows = rows;
  out.global.mask = for_queries(options.mask, rows.places, shape, share ? o.heads : 1);
  out.global.scale = options.scale.value_or(1 / std::sqrt(double(o.head_width)));
  const Tensor some = linear(query, x.index({rows.row, rows.place}));  // [K, H·D]
  const Tensor queries = at::zeros({x.size(0), most, some.size(1)}, some.options().requires_grad(false))
                             .index_put({rows.row, rows.slot}, some);  // [B, N, H·D]
  out.query = split_tokens(queries, o.heads, o.head_width);
  if (!share) {
    out.key = split_tokens(linear(key, x), o.kv_heads, o.head_width);
    out.value = split_tokens(linear(value, x), o.kv_heads, o.value_width);
    return out;
  }
  out.query = at::matmul(out.query, rows_by_head(key, o.kv_heads, o.heads))  // [B, H, N, C′]
                  .transpose(1, 2)
                  .flatten(1, 2)
                  .unsqueeze(1);
  out.key = (o.bias ? at::constant_pad_nd(x, {0, 1}, 1) : x).unsqueeze(1);
  out.value = out.key;
  out.shared_value_rows = rows_by_head(value, o.kv_heads, o.heads);
  return out;
}

Tensor LongformerVariantImpl::attend_tokens(const VariantTokens& tokens, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const AttentionOptions& options) const {
  const Split s = split(tokens, q, k, options);
  const Tensor y = attention(q, k, v, s.local);  // [B, H, T, E]
  if (!s.rows) return y;
  return s.rows->join(y, s.output(attention(s.query, s.key, s.value, s.global), options_.heads));
}

AttentionResult LongformerVariantImpl::attend_tokens_detailed(const VariantTokens& tokens, const Tensor& q,
                                                              const Tensor& k, const Tensor& v,
                                                              const AttentionOptions& options) const {
  const Split s = split(tokens, q, k, options);
  const AttentionResult y = attention_detailed(q, k, v, s.local);
  if (!s.rows) return y;
  const AttentionResult seen = attention_detailed(s.query, s.key, s.value, s.global);
  const int64_t heads = options_.heads;
  return {s.rows->join(y.output, s.output(seen.output, heads)), s.rows->join(y.weights, s.by_head(seen.weights, heads)),
          s.rows->join(y.log_sum_exp, s.by_head(seen.log_sum_exp, heads))};
}

void register_variants_longformer(VariantsRegistry& registry) {
  registry.add("longformer",
               {.make = [](auto& options) { return std::make_shared<LongformerVariantImpl>(options); }, .told = true});
}

}  // namespace fovea
