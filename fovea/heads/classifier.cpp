// SPDX-License-Identifier: Apache-2.0
#include "fovea/heads/classifier.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <array>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/layers/dropout.h"
#include "fovea/layers/linear.h"

namespace fovea {
namespace {

constexpr const char *kSingle = "single_label_classification", *kMulti = "multi_label_classification",
                     *kRegression = "regression";

}  // namespace

ClassifierImpl::ClassifierImpl(ClassifierOptions options) : options_(std::move(options)) {
  FOVEA_CHECK_CONFIG(options_.width > 0, "classifier: width is ", options_.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.classes > 0, "classifier: classes is ", options_.classes, ", wanted at least 1");
  check_probability("classifier: dropout", options_.dropout);
  const std::vector<std::string> known{kSingle, kMulti, kRegression};
  const bool fits = options_.problem.empty() || std::find(known.begin(), known.end(), options_.problem) != known.end();
  FOVEA_CHECK_CONFIG(fits, "classifier: unknown problem_type \"", options_.problem, "\"",
                     suggestion(options_.problem, known));
  output = register_module("output", make_linear(options_.width, options_.classes));
}

at::Tensor ClassifierImpl::forward(const at::Tensor& x) const {
  return linear(output, drop(x, options_.dropout, is_training()));  // [..., N]
}

CrossEntropySum ClassifierImpl::loss(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) const {
  std::string problem = options_.problem;
  if (problem.empty()) {
    const bool integers = at::isIntegralType(labels.scalar_type(), /*includeBool=*/false);
    problem = options_.classes == 1 ? kRegression : integers ? kSingle : kMulti;
  }
  if (problem == kSingle) return cross_entropy_sum(logits, labels, label_smoothing);
  FOVEA_CHECK(label_smoothing == 0, "label smoothing is for one of several classes; this is ", problem);
  const bool fits = labels.sizes() == logits.sizes() ||
                    (options_.classes == 1 && labels.sizes() == logits.sizes().slice(0, size_t(logits.dim() - 1)));
  FOVEA_CHECK(fits, "labels are ", labels.sizes(), ", wanted ", logits.sizes(), " for ", problem);
  const at::Tensor have = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  const at::Tensor want = labels.to(have.scalar_type()).view_as(have);
  const at::Tensor sum = problem == kRegression ? at::mse_loss(have, want, at::Reduction::Sum)
                                                : at::binary_cross_entropy_with_logits(
                                                      have, want, /*weight=*/{}, /*pos_weight=*/{}, at::Reduction::Sum);
  return {sum, labels.numel()};
}

at::Tensor ClassifierImpl::scores(const at::Tensor& logits) const {
  const at::Tensor x = logits.to(at::kFloat);
  if (options_.problem == kRegression) return x;
  if (options_.problem == kMulti || (options_.problem.empty() && options_.classes == 1)) return at::sigmoid(x);
  return at::softmax(x, -1);
}

}  // namespace fovea
