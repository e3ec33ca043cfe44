// The model's scores for the next token of every row, as the rules, samplers and beams read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/generate/logit_rules.h"
#include "fovea/kernels/view.h"

namespace fovea {

class NextTokenScores {
 public:
  // logits [N, T, V] of any floating type; the last of T counts. Error(kDiverged) where a row holds NaN or +∞, or
  // nothing but −∞.
  explicit NextTokenScores(const at::Tensor& logits);

  int64_t rows() const { return logprobs_.size[0]; }
  // What the model itself says, before any rule: log softmax(logits), natural logarithm.
  float logprob(int64_t row, int64_t id) const { return logprobs_.at<float>(row, id); }
  // The most probable token, the lowest id among equals.
  int64_t best(int64_t row) const { return best_.at<int64_t>(row); }
  // All tokens with their raw logits, without those of −∞.
  Candidates candidates(int64_t row) const;
  // log Σ exp(logits): raw logit − log-probability.
  float log_normalizer(int64_t row) const { return logits_.at<float>(row, best(row)) - logprob(row, best(row)); }

 private:
  std::vector<at::Tensor> storage_;
  ArrayView logits_, logprobs_, best_;
};

}  // namespace fovea
