// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/cross_entropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "fovea/base/check.h"
#include "fovea/data/batch.h"

namespace fovea {
namespace {

// The labels that count; one pass for the check and the count, on the CPU without a temporary.
int64_t count_labels(const at::Tensor& labels, int64_t vocabulary) {
  const at::Tensor host = labels.cpu().contiguous();
  const int64_t* label = host.const_data_ptr<int64_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (label[i] == kIgnore) continue;
    FOVEA_CHECK_KIND(ErrorKind::kArgument, label[i] >= 0 && label[i] < vocabulary, "cross_entropy_sum: label ",
                     label[i], " at place ", i, " is outside the vocabulary 0 … ", vocabulary - 1, " (", kIgnore,
                     " marks labels that do not count)");
    ++count;
  }
  return count;
}

}  // namespace

CrossEntropySum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) {
  FOVEA_CHECK(logits.dim() >= 1 && labels.sizes() == logits.sizes().slice(0, size_t(logits.dim() - 1)),
              "labels have shape ", labels.sizes(), ", logits ", logits.sizes(), "; wanted [...] and [..., V]");
  FOVEA_CHECK(at::isFloatingType(logits.scalar_type()), "logits are ", logits.scalar_type(),
              ", wanted a floating type");
  FOVEA_CHECK(labels.scalar_type() == at::kLong, "labels are ", labels.scalar_type(), ", wanted int64");
  FOVEA_CHECK(label_smoothing >= 0 && label_smoothing <= 1, "label_smoothing is ", label_smoothing,
              ", must lie between 0 and 1");
  const int64_t vocabulary = logits.size(-1);
  FOVEA_CHECK(vocabulary >= 1, "logits have shape ", logits.sizes(), ": an empty vocabulary");
  const int64_t count = count_labels(labels, vocabulary);
  at::Tensor rows = logits.reshape({-1, vocabulary});  // [N, V]
  if (rows.scalar_type() == at::kHalf || rows.scalar_type() == at::kBFloat16) rows = rows.to(at::kFloat);
  const at::Tensor flat = labels.reshape({-1});  // [N]
  return {at::cross_entropy_loss(rows, flat, {}, at::Reduction::Sum, kIgnore, label_smoothing), count};
}

}  // namespace fovea
