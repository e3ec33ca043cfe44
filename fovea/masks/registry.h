// What a file in masks/ registers: how to make the rule from the mask's numbers and data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fovea/base/registry.h"
#include "fovea/masks/mask.h"

namespace fovea {

struct MaskEntry {
  // Checks numbers and data against the shape (throws), then builds the rule. Views stay valid as long as the rule.
  std::function<MaskRulePtr(const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data, const AttentionShape& shape)> bind;
  // Masks worth testing at a shape; the conformance test loops over them.
  std::function<std::vector<Mask>(const AttentionShape& shape)> samples;
};

struct MasksRegistry : Registry<MaskEntry> {
  MasksRegistry() : Registry("mask") {}
};

const MasksRegistry& masks_registry();

}  // namespace fovea
