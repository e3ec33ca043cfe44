// Attention with global tokens (Longformer; Beltagy et al. 2020, section 3.1): they see all tokens through projections
// of their own, all others see their window and the global tokens through the usual ones.
//
//   y_i = softmax(q_i · k_j, j in window(i) or global) · v     i not global
//   y_g = softmax(q'_g · k'_j, every j) · v'                    g global; q', k', v': the global projections
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "fovea/attention/variants/variant.h"

namespace fovea {

// The window is a mask that the caller gives as VariantTokens::local (masks::window_global). A score bias together with
// global tokens is an Error: it belongs to queries in their places. Without global tokens it is softmax.
class LongformerVariantImpl final : public VariantImpl {
 public:
  explicit LongformerVariantImpl(const VariantOptions& options);
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options) const override;
  AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const override;
  Tensor attend_tokens(const VariantTokens& tokens, const Tensor& query, const Tensor& key, const Tensor& value,
                       const AttentionOptions& options) const override;
  AttentionResult attend_tokens_detailed(const VariantTokens& tokens, const Tensor& query, const Tensor& key,
                                         const Tensor& value, const AttentionOptions& options) const override;

  torch::nn::Linear query{nullptr};  // C -> H·D, of global tokens
  torch::nn::Linear key{nullptr};    // C -> G·D, what they see
  torch::nn::Linear value{nullptr};  // C -> G·E

 private:
  struct GlobalRows;
  struct Split;
  Split split(const VariantTokens& tokens, const Tensor& query, const Tensor& key,
              const AttentionOptions& options) const;

  VariantOptions options_;
};

}  // namespace fovea
