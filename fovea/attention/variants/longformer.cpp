// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/longformer.h"

#include <ATen/Functions.h>

#include <algorithm>
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
// nothing.
class ChosenQueriesRule final : public MaskRule {
 public:
  ChosenQueriesRule(Bound<MaskRulePtr> all, const Tensor& places) : all_(std::move(all)) {
    const auto values = places.accessor<int64_t, 2>();
    for (int64_t b = 0; b < values.size(0); ++b) {
      places_.emplace_back();
      for (int64_t n = 0; n < values.size(1); ++n) places_.back().push_back(values[b][n]);
    }
  }

  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override {
    const int64_t place = places_[size_t(b)][size_t(q)];
    return place >= 0 && all_.object->allowed(b, h, place, k);
  }
  Cover cover(const Tile& t) const override {
    bool any = false, all = true;
    for (int64_t q = t.q0; q < t.q1; ++q) {
      const int64_t place = places_[size_t(t.b)][size_t(q)];
      const Cover row = place < 0 ? Cover::kSkip : all_.object->cover({t.b, t.h, place, place + 1, t.k0, t.k1});
      any |= row != Cover::kSkip;
      all &= row == Cover::kFull;
    }
    return all ? Cover::kFull : any ? Cover::kPartial : Cover::kSkip;
  }
  void fill(const Tile& t, uint8_t* visible, int64_t stride) const override {
    for (int64_t q = t.q0; q < t.q1; ++q, visible += stride) {
      const int64_t place = places_[size_t(t.b)][size_t(q)];
      if (place < 0) {
        std::fill(visible, visible + (t.k1 - t.k0), uint8_t{0});
      } else {
        all_.object->fill({t.b, t.h, place, place + 1, t.k0, t.k1}, visible, stride);
      }
    }
  }
  bool depends_on_batch() const override { return true; }
  bool depends_on_head() const override { return all_.object->depends_on_head(); }

 private:
  Bound<MaskRulePtr> all_;
  std::vector<std::vector<int64_t>> places_;
};

Mask for_queries(const Mask& mask, const Tensor& places, const AttentionShape& shape) {
  auto rule = std::make_shared<ChosenQueriesRule>(bind_mask(mask, shape), places);
  return Mask({.name = "rule", .rule = std::move(rule)});
}

// [B, T, heads · width] -> [B, heads, T, width]
Tensor split_tokens(const Tensor& x, int64_t heads, int64_t width) {
  return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2);
}

torch::nn::Linear global_projection(int64_t from, int64_t to, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(bias));
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
  query = register_module("query", global_projection(o.width, o.heads * o.head_width, o.bias));
  key = register_module("key", global_projection(o.width, o.kv_heads * o.head_width, o.bias));
  value = register_module("value", global_projection(o.width, o.kv_heads * o.value_width, o.bias));
}

Tensor LongformerVariantImpl::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttentionOptions& options) const {
  return attention(query, key, value, options);
}

AttentionResult LongformerVariantImpl::attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       const AttentionOptions& options) const {
  return attention_detailed(query, key, value, options);
}

// The call for the tokens that are not global, and where some are, the one for those.
struct LongformerVariantImpl::Split {
  AttentionOptions local, global;
  std::optional<GlobalRows> rows;
  Tensor query, key, value;  // of the global tokens: [B, H, N, D], [B, G, T, D], [B, G, T, E]
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
  const AttentionShape shape{x.size(0), o.heads, o.kv_heads, q.size(2), k.size(2), o.head_width, o.value_width};
  out.global.mask = for_queries(options.mask, rows.places, shape);
  const Tensor some = linear(query, x.index({rows.row, rows.place}));  // [K, H·D]
  const Tensor queries = at::zeros({x.size(0), rows.places.size(1), some.size(1)}, some.options().requires_grad(false))
                             .index_put({rows.row, rows.slot}, some);  // [B, N, H·D]
  out.query = split_tokens(queries, o.heads, o.head_width);
  out.key = split_tokens(linear(key, x), o.kv_heads, o.head_width);
  out.value = split_tokens(linear(value, x), o.kv_heads, o.value_width);
  out.rows = rows;
  return out;
}

Tensor LongformerVariantImpl::attend_tokens(const VariantTokens& tokens, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const AttentionOptions& options) const {
  const Split s = split(tokens, q, k, options);
  const Tensor y = attention(q, k, v, s.local);  // [B, H, T, E]
  return s.rows ? s.rows->join(y, attention(s.query, s.key, s.value, s.global)) : y;
}

AttentionResult LongformerVariantImpl::attend_tokens_detailed(const VariantTokens& tokens, const Tensor& q,
                                                              const Tensor& k, const Tensor& v,
                                                              const AttentionOptions& options) const {
  const Split s = split(tokens, q, k, options);
  const AttentionResult y = attention_detailed(q, k, v, s.local);
  if (!s.rows) return y;
  const AttentionResult seen = attention_detailed(s.query, s.key, s.value, s.global);
  return {s.rows->join(y.output, seen.output), s.rows->join(y.weights, seen.weights),
          s.rows->join(y.log_sum_exp, seen.log_sum_exp)};
}

void register_variants_longformer(VariantsRegistry& registry) {
  registry.add("longformer", {.make = [](auto& options) { return std::make_shared<LongformerVariantImpl>(options); }});
}

}  // namespace fovea
