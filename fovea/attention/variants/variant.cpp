// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/variants/variant.h"

#include "fovea/attention/variants/registry.h"

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

Variant make_variant(const std::string& name, const VariantOptions& options) {
  return variants_registry().at(name).make(options);
}

}  // namespace fovea
