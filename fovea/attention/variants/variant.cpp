// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/variant.h"

#include "fovea/attention/variants/registry.h"
#include "fovea/base/check.h"

namespace fovea {

void register_all_variants(VariantsRegistry& registry);

const VariantsRegistry& variants_registry() {
  static const VariantsRegistry registry = [] {
    VariantsRegistry r;
    register_all_variants(r);
    return r;
  }();
  return registry;
}

namespace {

AttentionOptions without_global_tokens(const VariantTokens& tokens, AttentionOptions options) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !tokens.global.defined(),
                   "attention: global tokens were given to a variant that has none; \"longformer\" has");
  options.mask = options.mask & tokens.local;
  return options;
}

}  // namespace

Tensor VariantImpl::attend_tokens(const VariantTokens& tokens, const Tensor& query, const Tensor& key,
                                  const Tensor& value, const AttentionOptions& options) const {
  return attend(query, key, value, without_global_tokens(tokens, options));
}

AttentionResult VariantImpl::attend_tokens_detailed(const VariantTokens& tokens, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const AttentionOptions& options) const {
  return attend_detailed(query, key, value, without_global_tokens(tokens, options));
}

Variant make_variant(const std::string& name, const VariantOptions& options) {
  return variants_registry().at(name).make(options);
}

void VariantOptions::visit(FieldVisitor& visitor) {
  visitor.field("max_positions", max_positions, "longest sequence; 0: no limit (linformer needs one)");
  visitor.field("projected", projected, "linformer: rows that a sequence is projected to");
  visitor.field("sharing", sharing, "linformer: \"none\", \"heads\", \"key_value\" or \"layers\"");
}

Tensor VariantImpl::attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                                  const AttentionOptions& options) const {
  const auto [keys, values] = cache.append(key, value);  // [B, G, S, D], [B, G, S, E]
  return attend(query, keys, values, options);
}

AttentionResult VariantImpl::attend_cached_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                    LayerCache& cache, const AttentionOptions& options) const {
  const auto [keys, values] = cache.append(key, value);  // [B, G, S, D], [B, G, S, E]
  return attend_detailed(query, keys, values, options);
}

}  // namespace fovea
