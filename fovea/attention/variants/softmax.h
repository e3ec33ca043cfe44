// Exact scaled dot-product attention (Vaswani et al. 2017, equation 1): the library's one attention call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/attention/variants/variant.h"

namespace fovea {

class SoftmaxVariantImpl final : public VariantImpl {
 public:
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options) const override;
  AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const override;
};

}  // namespace fovea
