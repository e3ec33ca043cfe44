// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/linformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "fovea/attention/variants/key_mask.h"
#include "fovea/attention/variants/registry.h"
#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/size.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

const std::vector<std::string> kSharings{"none", "heads", "key_value", "layers"};

// Slot s of row b takes what stands in slot (s + shift[b]) mod S.
Tensor turned(const Tensor& shift, int64_t S) {
  return (at::arange(S, shift.options()) + shift.unsqueeze(1)).remainder(S);  // [B, S]
}

}  // namespace

// Keys and values without what does not exist, real tokens first, projected.
struct LinformerVariantImpl::Projected {
  Tensor key, value;  // [B, G, projected, D], [B, G, projected, E]
  Tensor gone;        // bool [B, S]; undefined: all keys exist
  Tensor start;       // [B] slots before the first real token; undefined: 0
  AttentionOptions options;
};

LinformerVariantImpl::LinformerVariantImpl(const VariantOptions& options) : options_(options) {
  const auto& o = options_;
  FOVEA_CHECK_CONFIG(std::find(kSharings.begin(), kSharings.end(), o.sharing) != kSharings.end(),
                     "attention variant \"linformer\": unknown sharing \"", o.sharing, "\"",
                     suggestion(o.sharing, kSharings));
  FOVEA_CHECK_CONFIG(o.max_positions > 0, "attention variant \"linformer\": max_positions is ", o.max_positions,
                     ", wanted the length of the longest sequence");
  FOVEA_CHECK_CONFIG(o.projected > 0, "attention variant \"linformer\": projected is ", o.projected,
                     ", wanted at least 1 row that a sequence is projected to");
  const double size = double(o.projected) * double(o.max_positions);
  check_parameters("attention variant \"linformer\"", o.sharing == "none" ? size * double(o.kv_heads) : size);
  const auto projection = [&] {
    const double deviation = 1 / std::sqrt(double(o.max_positions));
    return o.sharing == "none" ? fresh_weight({o.kv_heads, o.projected, o.max_positions}, deviation)
                               : fresh_weight({o.projected, o.max_positions}, deviation);
  };
  key_projection = register_parameter("key_projection", projection());
  if (o.sharing == "none" || o.sharing == "heads")
    value_projection = register_parameter("value_projection", projection());
}

LinformerVariantImpl::Projected LinformerVariantImpl::project(const Tensor& query, const Tensor& key,
                                                              const Tensor& value,
                                                              const AttentionOptions& options) const {
  const int64_t S = key.size(2);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, S <= options_.max_positions, "linformer: a sequence of ", S,
                   " tokens; its projections were made for at most ", options_.max_positions);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, options.score.is_empty(),
                   "linformer: projected keys have no place, so a bias by distance (as of ALiBi or T5) has no meaning");
  const KeyMask mask =
      key_mask("linformer", options.mask, {query.size(0), query.size(1), key.size(1), query.size(2), S});
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !mask.causal,
                   "linformer: it mixes all keys before a query comes and cannot be causal; take \"softmax\" or "
                   "\"linear\"");
  Projected out{.key = key, .value = value, .options = options};
  out.options.mask = {};
  if (mask.real.defined()) {
    out.gone = mask.real.logical_not().to(key.device());
    const auto clean = [&](const Tensor& x) { return x.masked_fill(out.gone.unsqueeze(1).unsqueeze(-1), 0); };
    out.key = clean(key), out.value = clean(value);
    if (S > 0 && out.gone.select(1, 0).any().item<bool>()) {
      out.start = mask.real.to(at::kLong).argmax(1).to(key.device());  // the first that is real
      const Tensor slots = turned(out.start, S).unsqueeze(1).unsqueeze(-1);
      out.key = out.key.gather(2, slots.expand_as(out.key));
      out.value = out.value.gather(2, slots.expand_as(out.value));
    }
  }
  out.key = at::matmul(key_projection.slice(-1, 0, S).to(key.scalar_type()), out.key);
  out.value = at::matmul(values().slice(-1, 0, S).to(value.scalar_type()), out.value);
  return out;
}

Tensor LinformerVariantImpl::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) const {
  const Projected p = project(query, key, value, options);
  return attention(query, p.key, p.value, p.options);
}

AttentionResult LinformerVariantImpl::attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                      const AttentionOptions& options) const {
  const int64_t H = query.size(1), S = key.size(2);
  const Projected p = project(query, key, value, options);
  AttentionResult out = attention_detailed(query, p.key, p.value, p.options);
  Tensor columns = values().slice(-1, 0, S).to(query.scalar_type());  // [projected, S] or [G, projected, S]
  if (columns.dim() == 3) columns = columns.repeat_interleave(H / columns.size(0), 0);  // [H, projected, S]
  out.weights = at::matmul(out.weights, columns);                                       // [B, H, T, S]
  if (p.start.defined()) {
    const Tensor slots = turned(-p.start, S).unsqueeze(1).unsqueeze(1);  // [B, 1, 1, S]
    out.weights = out.weights.gather(3, slots.expand_as(out.weights));
  }
  if (p.gone.defined()) out.weights = out.weights.masked_fill(p.gone.unsqueeze(1).unsqueeze(1), 0);
  return out;
}

Tensor LinformerVariantImpl::attend_cached(const Tensor&, const Tensor&, const Tensor&, LayerCache&,
                                           const AttentionOptions&) const {
  throw Error(ErrorKind::kArgument, "linformer: it sees a sequence whole and cannot be continued from a cache");
}

AttentionResult LinformerVariantImpl::attend_cached_detailed(const Tensor& query, const Tensor& key,
                                                             const Tensor& value, LayerCache& cache,
                                                             const AttentionOptions& options) const {
  return {attend_cached(query, key, value, cache, options), {}, {}};
}

void register_variants_linformer(VariantsRegistry& registry) {
  registry.add("linformer", {.make = [](auto& options) { return std::make_shared<LinformerVariantImpl>(options); },
                             .causal = false,
                             .scored = false});
}

}  // namespace fovea
