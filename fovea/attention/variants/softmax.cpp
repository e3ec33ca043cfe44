// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/softmax.h"

#include "fovea/attention/variants/registry.h"

namespace fovea {

Tensor SoftmaxVariantImpl::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const {
  return attention(query, key, value, options);
}

AttentionResult SoftmaxVariantImpl::attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                    const AttentionOptions& options) const {
  return attention_detailed(query, key, value, options);
}

void register_variants_softmax(VariantsRegistry& registry) {
  registry.add("softmax", {.make = [](auto&) { return std::make_shared<SoftmaxVariantImpl>(); }});
}

}  // namespace fovea
