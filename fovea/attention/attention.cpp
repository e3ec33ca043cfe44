// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/attention.h"

#include "fovea/base/check.h"
#include "fovea/base/probe.h"
#include "fovea/layers/dropout.h"
#include "fovea/layers/linear.h"
#include "fovea/ops/affine.h"

namespace fovea {
namespace {

MultiHeadOptions completed(MultiHeadOptions o) {
  FOVEA_CHECK_CONFIG(o.width > 0, "attention: width is ", o.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(o.heads > 0, "attention: heads is ", o.heads, ", wanted at least 1");
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  FOVEA_CHECK_CONFIG(o.kv_heads > 0 && o.heads % o.kv_heads == 0, "attention: kv_heads is ", o.kv_heads,
                     ", wanted a divisor of the ", o.heads, " heads");
  if (o.head_width == 0) {
    FOVEA_CHECK_CONFIG(o.width % o.heads == 0, "attention: width ", o.width, " does not divide into ", o.heads,
                       " heads; change one of them, or give head_width");
    o.head_width = o.width / o.heads;
  }
  if (o.value_width == 0) o.value_width = o.head_width;
  if (o.memory_width == 0) o.memory_width = o.width;
  FOVEA_CHECK_CONFIG(o.head_width > 0, "attention: head_width is ", o.head_width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(o.value_width > 0, "attention: value_width is ", o.value_width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(o.memory_width > 0, "attention: memory_width is ", o.memory_width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(o.soft_cap >= 0, "attention: soft_cap is ", o.soft_cap, ", wanted at least 0");
  check_probability("attention: dropout", o.dropout);
  if (!o.output_bias) o.output_bias = o.bias;
  return o;
}

PositionOptions position_options(const MultiHeadOptions& o) {
  PositionOptions p = o.positions;
  if (p.width == 0) p.width = o.width;
  if (p.heads == 0) p.heads = o.heads;
  if (p.head_width == 0) p.head_width = o.head_width;
  return p;
}

VariantOptions variant_options(const MultiHeadOptions& o) {
  VariantOptions v = o.variants;
  v.heads = o.heads, v.kv_heads = o.kv_heads;
  v.head_width = o.head_width, v.value_width = o.value_width;
  v.width = o.width, v.bias = o.bias;
  if (v.max_positions == 0) v.max_positions = o.positions.max_positions;
  return v;
}

// [B, T, heads · width] -> [B, heads, T, width], a view. As strides: one dispatch where view and transpose are two.
Tensor split_heads(const Tensor& x, int64_t heads, int64_t width) {
  if (x.requires_grad() || !x.is_contiguous()) return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2);
  return x.as_strided({x.size(0), heads, x.size(1), width}, {x.size(1) * heads * width, width, heads * width, 1},
                      x.storage_offset());
}

}  // namespace

AttentionImpl::AttentionImpl(MultiHeadOptions options) : options_(completed(std::move(options))) {
  const auto& o = options_;
  query = register_module("query", make_linear(o.width, o.heads * o.head_width, o.bias));
  key = register_module("key", make_linear(o.memory_width, o.kv_heads * o.head_width, o.bias));
  value = register_module("value", make_linear(o.memory_width, o.kv_heads * o.value_width, o.bias));
  output = register_module("output", make_linear(o.heads * o.value_width, o.width, *o.output_bias));
  if (o.position != "none") position = register_module("position", make_position(o.position, position_options(o)));
  variant = register_module("variant", make_variant(o.variant, variant_options(o)));
}

void AttentionImpl::share_variant(const Variant& other) { variant = replace_module("variant", other); }

void AttentionImpl::check_input(const Tensor& x, const AttendInput& in) const {
  const auto& o = options_;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.dim() == 3 && x.size(2) == o.width, "attention: x is ", x.sizes(),
                   ", wanted [B, T, C] with C = ", o.width);
  if (in.memory.defined()) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument,
                     in.memory.dim() == 3 && in.memory.size(2) == o.memory_width && in.memory.size(0) == x.size(0),
                     "attention: memory is ", in.memory.sizes(), ", wanted [B, S, M] with B = ", x.size(0),
                     ", M = ", o.memory_width);
  } else {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, o.memory_width == o.width, "attention: a memory of ", o.memory_width,
                     " channels is wanted, none was given");
  }
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   (in.local_mask.is_full() && !in.global.defined()) || (!in.memory.defined() && in.cache == nullptr),
                   "attention: local_mask and global go with self-attention without a cache");
  FOVEA_CHECK_KIND(
      ErrorKind::kArgument,
      !in.global.defined() || (in.global.scalar_type() == at::kBool && in.global.sizes() == x.sizes().slice(0, 2)),
      "attention: global is ", in.global.defined() ? in.global.toString() : "", ' ', in.global.sizes(),
      ", wanted bool ", x.sizes().slice(0, 2));
  if (in.past.defined()) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, !in.memory.defined() && in.cache == nullptr,
                     "attention: a past goes with self-attention and without a cache");
    FOVEA_CHECK_KIND(
        ErrorKind::kArgument, in.past.dim() == 3 && in.past.size(2) == o.width && in.past.size(0) == x.size(0),
        "attention: past is ", in.past.sizes(), ", wanted [B, N, C] with B = ", x.size(0), ", C = ", o.width);
  }
  const Tensor& ids = in.positions.ids;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !ids.defined() || ids.dim() != 2 || ids.size(0) == x.size(0),
                   "attention: positions are ", ids.sizes(), ", wanted [T] or [B, T] with B = ", x.size(0));
}

AttentionImpl::Heads AttentionImpl::self_heads(const Tensor& x, const AttendInput& in, const PositionPass* pass) const {
  const auto& o = options_;
  Tensor q, k, v;
  if (in.past.defined()) {
    const Tensor seen = at::cat({in.past.to(x.scalar_type()), x}, 1);  // [B, N + T, C]
    q = linear(query, x), k = linear(key, seen), v = linear(value, seen);
  } else {
    const std::array<Affine, 3> layers{
        {{query->weight, query->bias}, {key->weight, key->bias}, {value->weight, value->bias}}};
    const auto projected = affine3(x, layers);
    q = projected[0], k = projected[1], v = projected[2];
  }
  Heads h{split_heads(q, o.heads, o.head_width),       // [B, H, T, D]
          split_heads(k, o.kv_heads, o.head_width),    // [B, G, N + T, D]
          split_heads(v, o.kv_heads, o.value_width)};  // [B, G, N + T, E]
  if (pass != nullptr) std::tie(h.query, h.key) = pass->encoding->rotate(h.query, h.key, pass->tables);
  return h;
}

AttentionImpl::Heads AttentionImpl::cross_heads(const Tensor& x, const AttendInput& in) const {
  const auto& o = options_;
  const Tensor q = split_heads(linear(query, x), o.heads, o.head_width);  // [B, H, T, D]
  if (in.cache != nullptr && !in.cache->empty()) return {q, in.cache->key(), in.cache->value()};
  const Tensor k = split_heads(linear(key, in.memory), o.kv_heads, o.head_width);     // [B, G, S, D]
  const Tensor v = split_heads(linear(value, in.memory), o.kv_heads, o.value_width);  // [B, G, S, E]
  if (in.cache != nullptr) in.cache->set(k, v);
  return {q, k, v};
}

// `cache`: of self-attention.
Tensor AttentionImpl::attend(const Tensor& x, const Heads& h, const AttendInput& in, const AttentionOptions& call,
                             LayerCache* cache) const {
  const VariantTokens tokens{x, in.global, in.local_mask};
  if (!Probe::wants("weights"))
    return cache != nullptr ? variant->attend_cached(h.query, h.key, h.value, *cache, call)
                            : variant->attend_tokens(tokens, h.query, h.key, h.value, call);
  const AttentionResult result = cache != nullptr
                                     ? variant->attend_cached_detailed(h.query, h.key, h.value, *cache, call)
                                     : variant->attend_tokens_detailed(tokens, h.query, h.key, h.value, call);
  Probe::emit("weights", result.weights);
  return result.output;
}

Tensor AttentionImpl::forward(const Tensor& x, const AttendInput& in) const {
  check_input(x, in);
  const ProbeScope scope(options_.scope.c_str());
  const int64_t T = x.size(1);
  const bool cross = in.memory.defined();  // another sequence has no distance to this one
  PositionPass own;
  const PositionPass* pass = cross ? nullptr : in.position;
  Tensor entering = x;
  if (!cross && pass == nullptr && position != nullptr) {
    const int64_t past = in.cache != nullptr ? in.cache->length() : in.past.defined() ? in.past.size(1) : 0;
    const Positions positions = in.positions.defined() ? in.positions : Positions(past);
    entering = position->embed(x, positions);
    own = position->prepare(positions, T, past + T, x.options());
    pass = &own;
  }
  const Heads heads = cross ? cross_heads(x, in) : self_heads(entering, in, pass);
  AttentionOptions call{.mask = in.mask, .score = in.score, .soft_cap = options_.soft_cap};
  if (pass != nullptr) call.score = call.score + pass->score;
  if (options_.scale != 0) call.scale = options_.scale;
  if (is_training()) call.dropout = in.dropout.value_or(options_.dropout);
  const Tensor y = attend(entering, heads, in, call, cross ? nullptr : in.cache);  // [B, H, T, E]
  return linear(output, y.transpose(1, 2).reshape({x.size(0), T, options_.heads * options_.value_width}));  // [B, T, C]
}

}  // namespace fovea
