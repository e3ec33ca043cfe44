// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/next_token.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/max.h>

#include <cmath>
#include <limits>

#include "fovea/ops/bind.h"

namespace fovea {

NextTokenScores::NextTokenScores(const at::Tensor& logits) {
  const at::Tensor last = logits.select(1, -1);                       // [N, V]
  const at::Tensor logprobs = at::log_softmax(last, -1, at::kFloat);  // [N, V]
  const auto [most, best] = at::max(logprobs, -1);                    // [N]
  logits_ = view_of(last, storage_);
  logprobs_ = view_of(logprobs, storage_);
  best_ = view_of(best, storage_);
  const ArrayView most_view = view_of(most, storage_);
  for (int64_t row = 0; row < rows(); ++row)
    FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(most_view.at<float>(row)), "generate: the logits of row ", row,
                     " hold NaN or infinity; the model has diverged");
}

Candidates NextTokenScores::candidates(int64_t row) const {
  Candidates out;
  const int64_t vocabulary = logits_.size[1];
  out.reserve(vocabulary);
  for (int64_t id = 0; id < vocabulary; ++id) {
    const float logit = logits_.at<float>(row, id);
    if (logit != -std::numeric_limits<float>::infinity()) out.push_back({int32_t(id), logit});
  }
  return out;
}

}  // namespace fovea
