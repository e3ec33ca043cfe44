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

AttentionResult reference_attention(const AttentionCall& call, bool want_log_sum_exp);

// scores -> scores for one term, by its differentiable definition.
Tensor define_term(const Score::Term& term, const Tensor& scores, const AttentionCall& call);
// The same for a user's rule, element by element.
Tensor define_user_score(const Score::Term& term, const Tensor& scores, int64_t first_batch);
// 1/(1 − p) where a weight is kept, 0 where it is dropped: [b, H, T, S].
Tensor dropout_factors(const AttentionCall& call, const Tensor& like);

}  // namespace fovea
