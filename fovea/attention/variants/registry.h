// What a file in attention/variants/ registers: an arithmetic that turns query, key and value into an output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fovea/attention/variants/variant.h"
#include "fovea/base/registry.h"

namespace fovea {

struct VariantEntry {
  // Checks what it reads of the sizes (throws Error(kConfig)).
  std::function<Variant(const VariantOptions& options)> make;
  bool causal = true;  // a query can be kept from seeing later keys
  // Weights come of q · k: these scores can be shifted (ALiBi, T5), and tell distances where q and k turn (RoPE).
  bool scored = true;
  bool told = false;  // it is told which tokens are global, for which alone it has weights
};

struct VariantsRegistry : Registry<VariantEntry> {
  VariantsRegistry() : Registry("attention variant") {}
};

const VariantsRegistry& variants_registry();

}  // namespace fovea
