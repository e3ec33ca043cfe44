// Token embedding: a table of one row per token, and the output projection tied to it (Vaswani et al. 2017,
// section 3.4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/layers/module.h"

namespace fovea {

struct EmbeddingOptions {
  int64_t vocabulary = 0;  // V
  int64_t width = 0;       // C
  bool scale = false;      // times √C on the way in
};

class EmbeddingImpl : public torch::nn::Module {
 public:
  explicit EmbeddingImpl(EmbeddingOptions options);
  // Token ids, int64 of any shape [...] -> [..., C]. An id outside 0 … V − 1 is an Error(kArgument) naming it and V.
  at::Tensor forward(const at::Tensor& ids) const;
  // [..., C] -> [..., V]: x · weightᵀ, the tied output projection; unscaled, without a bias.
  at::Tensor logits(const at::Tensor& x) const;
  const EmbeddingOptions& options() const { return options_; }

  at::Tensor weight;  // [V, C], initially normal with deviation 1/√C

 private:
  EmbeddingOptions options_;
};
FOVEA_MODULE(Embedding, EmbeddingOptions);

}  // namespace fovea
