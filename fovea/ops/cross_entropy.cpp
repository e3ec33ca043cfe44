// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/cross_entropy.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/data/batch.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/ops/affine.h"

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

void check_labels(const at::Tensor& labels, at::IntArrayRef wanted, const char* what, double label_smoothing) {
  FOVEA_CHECK(labels.sizes() == wanted, "labels have shape ", labels.sizes(), ", wanted ", wanted, " as ", what,
              " has");
  FOVEA_CHECK(labels.scalar_type() == at::kLong, "labels are ", labels.scalar_type(), ", wanted int64");
  FOVEA_CHECK(label_smoothing >= 0 && label_smoothing <= 1, "label_smoothing is ", label_smoothing,
              ", must lie between 0 and 1");
}

// Logits of one chunk: 128 MB, so that a large vocabulary still makes products of hundreds of rows.
constexpr int64_t kChunkLogits = int64_t(1) << 25;

// Room between rows of logits so that each begins at a cache line and neighbours don't fall into the same sets of the
// cache: an odd number of lines. Rows of 50,257 numbers, one close after the other, make a product a third slower.
int64_t row_pitch(int64_t vocabulary) { return (vocabulary + 15) / 16 / 2 * 32 + 16; }

struct LinearCrossEntropy {
  at::Tensor sum, hidden_gradient, weight_gradient;
};

LinearCrossEntropy run_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                            const at::Tensor& labels, double smoothing, bool hidden_wanted,
                                            bool weight_wanted) {
  if (hidden.scalar_type() != at::kFloat && half_products_are_slow()) {
    auto out = run_linear_cross_entropy(hidden.to(at::kFloat), weight.to(at::kFloat), labels, smoothing, hidden_wanted,
                                        weight_wanted);
    if (hidden_wanted) out.hidden_gradient = out.hidden_gradient.to(hidden.scalar_type());
    return out;
  }
  const int64_t rows = hidden.size(0), width = hidden.size(1), vocabulary = weight.size(0);
  const int64_t a_chunk = std::clamp<int64_t>(kChunkLogits / vocabulary, 1, std::max<int64_t>(rows, 1));
  const bool gradient = hidden_wanted || weight_wanted, narrow = hidden.scalar_type() != at::kFloat;
  const int64_t* label = labels.const_data_ptr<int64_t>();
  LinearCrossEntropy out;
  if (hidden_wanted) out.hidden_gradient = at::empty_like(hidden);
  if (weight_wanted) out.weight_gradient = at::empty({vocabulary, width}, at::kFloat);
  if (weight_wanted && rows == 0) out.weight_gradient.zero_();
  std::vector<float> losses(size_t(rows), 0.0f);
  const at::Tensor logits =
      at::empty({std::min(a_chunk, rows), row_pitch(vocabulary)}, hidden.options()).narrow(1, 0, vocabulary);
  for (int64_t first = 0; first < rows; first += a_chunk) {
    const int64_t count = std::min(a_chunk, rows - first);
    const at::Tensor chunk = hidden.narrow(0, first, count);
    at::Tensor part = logits.narrow(0, 0, count);
    at::mm_out(part, chunk, weight.t());  // [count, V]
    at::Tensor wide = narrow ? part.to(at::kFloat) : part;
    float* scores = wide.data_ptr<float>();
    const int64_t pitch = wide.stride(0);
    at::parallel_for(0, count, std::max<int64_t>(1, (1 << 14) / vocabulary), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* row = scores + r * pitch;
        if (const int64_t wanted = label[first + r]; wanted != kIgnore) {
          losses[size_t(first + r)] = isa().cross_entropy(row, vocabulary, wanted, float(smoothing), gradient);
        } else if (gradient) {
          std::fill(row, row + vocabulary, 0.0f);
        }
      }
    });
    if (!gradient) continue;
    if (narrow) part.copy_(wide);
    if (hidden_wanted) {
      at::Tensor to = out.hidden_gradient.narrow(0, first, count);
      at::mm_out(to, part, weight);
    }
    if (weight_wanted) {
      if (narrow) {
        const at::Tensor product = at::mm(part.t(), chunk);
        first == 0 ? out.weight_gradient.copy_(product) : out.weight_gradient.add_(product);
      } else {
        out.weight_gradient.addmm_(part.t(), chunk, /*beta=*/first > 0);  // 0: what stands there does not count
      }
    }
  }
  double sum = 0;
  for (float loss : losses) sum += loss;
  out.sum = at::scalar_tensor(sum, at::kFloat);
  return out;
}

class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& labels, double smoothing) {
    auto out =
        run_linear_cross_entropy(hidden, weight, labels, smoothing, hidden.requires_grad(), weight.requires_grad());
    context->save_for_backward({hidden, weight, labels});
    context->saved_data["smoothing"] = smoothing;
    context->saved_data["gradients"] = std::vector<at::Tensor>{out.hidden_gradient, out.weight_gradient};
    return out.sum;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    FOVEA_CHECK_KIND(
        ErrorKind::kArgument, !at::GradMode::is_enabled(),
        "linear_cross_entropy_sum: no second derivatives; use cross_entropy_sum on logits where they are wanted");
    const auto saved = context->get_saved_variables();  // hidden, weight, labels
    // Forward's gradients are handed on as they lie, the weight's being as large as the weight. Asked a second time (a
    // retained graph), they are made anew.
    std::vector<at::Tensor> made;
    if (auto kept = std::exchange(context->saved_data["gradients"], c10::IValue()); !kept.isNone()) {
      made = std::move(kept).toTensorVector();
    } else {
      const auto again =
          run_linear_cross_entropy(saved[0], saved[1], saved[2], context->saved_data["smoothing"].toDouble(),
                                   context->needs_input_grad(0), context->needs_input_grad(1));
      made = {again.hidden_gradient, again.weight_gradient};
    }
    const double factor = gradients[0].item<double>();
    for (at::Tensor& gradient : made)
      if (gradient.defined()) gradient.mul_(factor);
    if (made[1].defined()) made[1] = made[1].to(saved[1].scalar_type());
    return {made[0], made[1], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

CrossEntropySum linear_cross_entropy_sum(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                         double label_smoothing) {
  FOVEA_CHECK(hidden.dim() >= 1 && weight.dim() == 2 && hidden.size(-1) == weight.size(1) && weight.size(0) >= 1,
              "hidden has shape ", hidden.sizes(), ", weight ", weight.sizes(), "; wanted [..., C] and [V, C]");
  FOVEA_CHECK(hidden.scalar_type() == weight.scalar_type(), "hidden is ", hidden.scalar_type(), ", weight ",
              weight.scalar_type(), "; both must be the same");
  check_labels(labels, hidden.sizes().slice(0, size_t(hidden.dim() - 1)), "hidden", label_smoothing);
  const auto type = hidden.scalar_type();
  if (!hidden.device().is_cpu() || (type != at::kFloat && type != at::kBFloat16))
    return cross_entropy_sum(at::linear(hidden, weight), labels, label_smoothing);
  const int64_t count = count_labels(labels, weight.size(0));
  const at::Tensor rows = hidden.reshape({-1, hidden.size(-1)}).contiguous(), flat = labels.reshape({-1}).contiguous();
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad()))
    return {LinearCrossEntropyFunction::apply(rows, weight.contiguous(), flat, label_smoothing), count};
  return {run_linear_cross_entropy(rows, weight.contiguous(), flat, label_smoothing, false, false).sum, count};
}

CrossEntropySum cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) {
  FOVEA_CHECK(logits.dim() >= 1, "logits have no axis; wanted [..., V]");
  FOVEA_CHECK(at::isFloatingType(logits.scalar_type()), "logits are ", logits.scalar_type(),
              ", wanted a floating type");
  check_labels(labels, logits.sizes().slice(0, size_t(logits.dim() - 1)), "logits", label_smoothing);
  const int64_t vocabulary = logits.size(-1);
  FOVEA_CHECK(vocabulary >= 1, "logits have shape ", logits.sizes(), ": an empty vocabulary");
  const int64_t count = count_labels(labels, vocabulary);
  at::Tensor rows = logits.reshape({-1, vocabulary});  // [N, V]
  if (rows.scalar_type() == at::kHalf || rows.scalar_type() == at::kBFloat16) rows = rows.to(at::kFloat);
  const at::Tensor flat = labels.reshape({-1});  // [N]
  return {at::cross_entropy_loss(rows, flat, {}, at::Reduction::Sum, kIgnore, label_smoothing), count};
}

}  // namespace fovea
