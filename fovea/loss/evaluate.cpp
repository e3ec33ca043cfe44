// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/evaluate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>
#include <cstddef>
#include <mutex>
#include <numbers>

#include "fovea/base/check.h"

namespace fovea {
namespace {

class EvaluationMode {
 public:
  explicit EvaluationMode(ModelImpl& model)
      : model_(model), was_training_(model.is_training()), generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    model_.eval();
  }
  ~EvaluationMode() {
    model_.train(was_training_);
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  ModelImpl& model_;
  bool was_training_;
  at::Generator generator_;
  at::Tensor state_;
  const at::NoGradGuard no_grad_;
};

Evaluation average(double sum, int64_t tokens) {
  FOVEA_CHECK_INPUT(tokens > 0, "nothing to evaluate: no label of the dataset counts");
  return {sum / double(tokens), tokens};
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }
double Evaluation::bits_per_token() const { return loss / std::numbers::ln2; }
double Evaluation::bits_per_character(double characters_per_token) const {
  return bits_per_token() / characters_per_token;
}

std::optional<Evaluation> evaluate(ModelImpl& model, Dataset& dataset, const std::function<bool()>& stop) {
  const EvaluationMode mode(model);
  double sum = 0;  // f64: a million tokens' losses
  int64_t tokens = 0;
  const int64_t batches = dataset.batch_count(0);
  for (int64_t i = 0; i < batches; ++i) {
    if (stop && stop()) return std::nullopt;
    const LossSum loss = model.loss(dataset.batch(0, i));
    sum += loss.sum.item<double>();
    tokens += loss.count;
  }
  return average(sum, tokens);
}

double Predictions::accuracy() const {
  int64_t right = 0;
  for (size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i];
  return truth.empty() ? 0 : double(right) / double(truth.size());
}

std::optional<Predictions> predict(ModelImpl& model, Dataset& dataset, const std::function<bool()>& stop) {
  const EvaluationMode mode(model);
  Predictions out;
  double sum = 0;
  const int64_t batches = dataset.batch_count(0);
  for (int64_t i = 0; i < batches; ++i) {
    if (stop && stop()) return std::nullopt;
    const Batch batch = dataset.batch(0, i);
    const Tensor scores = model.forward(batch);       // [B, classes] or [B, T, words]
    const Tensor best = scores.argmax(-1).flatten();  // [B] or [B · T]
    const Tensor labels = batch.labels.flatten();
    FOVEA_CHECK(labels.sizes() == best.sizes() && labels.scalar_type() == at::kLong, "labels are ",
                batch.labels.sizes(), " of ", labels.scalar_type(), ", wanted a class's number for each of ",
                best.sizes(), " outputs");
    sum += at::cross_entropy_loss(scores.reshape({-1, scores.size(-1)}).to(at::kFloat), labels, {}, at::Reduction::Sum,
                                  kIgnore)
               .item<double>();
    const auto truth = labels.accessor<int64_t, 1>(), predicted = best.accessor<int64_t, 1>();
    for (int64_t j = 0; j < truth.size(0); ++j) {
      if (truth[j] == kIgnore) continue;
      out.truth.push_back(truth[j]);
      out.predicted.push_back(predicted[j]);
    }
  }
  out.evaluation = average(sum, int64_t(out.truth.size()));
  return out;
}

}  // namespace fovea
