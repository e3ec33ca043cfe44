// Attention by its definition: the slow, obvious implementation that ships in the product, answers whatever no kernel takes,
// and judges the kernels. Every step is a differentiable LibTorch operation, so second derivatives come by themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/ops/attention.h"

namespace fovea {

// A checked call: shapes agree, defaults are filled in.
struct AttentionCall {
  Tensor query, key, value;  // [b, H, T, D], [b, G, S, D], [b, G, S, E]
  AttentionShape shape;      // shape.B counts all batches that masks, biases and dropout know
  int64_t first_batch = 0;   // which of them this call computes; b = query.size(0)
  Mask mask;
  Score score;
  double scale = 1;
  double soft_cap = 0;
  double dropout = 0;
  int64_t dropout_seed = 0;
};

// The mask as a tensor: bool [b|1, H|1, T, S] on the query's device; undefined where everything is visible.
Tensor visible_of(const AttentionCall& call);
AttentionResult reference_attention(const AttentionCall& call, const Tensor& visible, bool want_log_sum_exp);

// Key/value head g serves query heads g·H/G … (g+1)·H/G − 1: [b, G, S, D] -> [b, H, S, D].
Tensor spread_heads(const Tensor& x, int64_t heads);
// scores -> scores for one term, by its differentiable definition.
Tensor define_term(const Score::Term& term, const Tensor& scores, const AttentionCall& call);
// The same for a user's rule, element by element.
Tensor define_user_score(const Score::Term& term, const Tensor& scores, int64_t first_batch);
// 1/(1 − p) where a weight is kept, 0 where it is dropped: [b, H, T, S].
Tensor dropout_factors(const AttentionCall& call, const Tensor& like);

}  // namespace fovea
