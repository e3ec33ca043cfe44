// Linformer (Wang et al. 2020): keys and values of a whole sequence are projected to a fixed number of rows, so that
// attention over them is linear in the length (equation 7):
//
//   headᵢ = softmax(Qᵢ (E Kᵢ)ᵀ / √D) F Vᵢ,   E, F [projected, max_positions], learned
//
// Sharing (section 4): "none": E and F for each key/value head; "heads": E and F for all heads of a layer; "key_value":
// E = F for all heads; "layers": one E = F for all layers of a stack.
//
// A sequence of S tokens uses the first S columns. It sees itself whole: causal masks, biases by distance and decoding
// with a cache are errors. Column j belongs to the j-th real token, whichever side is padded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/attention/variants/variant.h"

namespace fovea {

class LinformerVariantImpl final : public VariantImpl {
 public:
  // Reads kv_heads, max_positions, projected, sharing. Error(kConfig) for sizes that are missing.
  explicit LinformerVariantImpl(const VariantOptions& options);
  // Masks: padding. Dropout falls on the weights of projected rows. Error(kArgument) for S > max_positions.
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options) const override;
  // weights: what the values are multiplied by, softmax(…) F; of any sign. log_sum_exp: of the projected scores.
  AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const override;
  Tensor attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                       const AttentionOptions& options) const override;
  AttentionResult attend_cached_detailed(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                                         const AttentionOptions& options) const override;
  bool shared_by_layers() const override { return options_.sharing == "layers"; }

  // [projected, max_positions], with "none" [G, projected, max_positions]; initially normal with deviation
  // 1/√max_positions.
  Tensor key_projection;
  Tensor value_projection;  // undefined where it is the keys'

 private:
  struct Projected;
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) const;
  const Tensor& values() const { return value_projection.defined() ? value_projection : key_projection; }

  VariantOptions options_;
};

}  // namespace fovea
