// Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs"): the weight of a pair is a product of features,
// so that sums over keys can be made before a query comes.
//
//   yᵢ = φ(qᵢ)ᵀ Σⱼ φ(kⱼ) vⱼᵀ / φ(qᵢ)ᵀ Σⱼ φ(kⱼ),   φ(x) = elu(x) + 1        (equations 5 and 7)
//
// Causal, the sums run over j ≤ i (equations 8 to 12): time and memory grow with the length alone, forward and
// backward. A text is cut into chunks; within one, weights are formed (as many per query as a chunk is long), and what
// lies before it comes as one matrix [D, E] a chunk. In decoding the cache holds that sum (equations 16 to 20): a step
// costs the same after any number of tokens.
//
// Scores have no scale (φ is what it is), no soft cap, no bias; weights are never dropped. A rotary encoding would turn
// what φ reads, and φ(Rq) · φ(Rk) depends on more than the distance: positions are to be added to the embeddings (the
// decoder refuses others).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/attention/variants/variant.h"

namespace fovea {

class LinearVariantImpl final : public VariantImpl {
 public:
  // Masks: causal, padding. Sums in f32 (f64 for f64), those that go on from chunk to chunk or in a cache in f64. A
  // query that sees no key gives 0; one that sees a NaN or an infinity gives NaN, and a hidden one reaches nothing.
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options) const override;
  // log_sum_exp: of the sum of weights, ln φ(qᵢ)ᵀ Σⱼ φ(kⱼ).
  AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const override;
  Tensor attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                       const AttentionOptions& options) const override;
  // Only for the first tokens: of later ones the cache has no keys to give weights to. Error(kArgument) then.
  AttentionResult attend_cached_detailed(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                                         const AttentionOptions& options) const override;
};

}  // namespace fovea
