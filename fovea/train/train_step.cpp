// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/train_step.h"

#include <cmath>

#include "fovea/base/check.h"

namespace fovea {

StepOutcome train_step(ModelImpl& model, const std::vector<Batch>& batches, AdamW& optimizer,
                       const StepSettings& settings) {
  StepOutcome out;
  for (const Batch& batch : batches) out.tokens += batch.tokens;
  FOVEA_CHECK(out.tokens > 0, "step ", settings.step, " has no label that counts");
  optimizer.zero_grad();
  for (const Batch& batch : batches) {
    const LossSum loss = model.loss(batch, settings.label_smoothing);
    FOVEA_ASSERT(loss.count == batch.tokens, "the model counted ", loss.count, " labels, the batch says ",
                 batch.tokens);
    const Tensor part = loss.sum / double(out.tokens);  // this batch's share of the mean over all
    const double value = part.item<double>();
    // abs: the sign of a NaN says nothing.
    FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(value), "the loss is ", std::abs(value), " at step ",
                     settings.step);
    out.loss += value;
    part.backward();
  }
  out.grad_norm = optimizer.clip_gradients();
  FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(out.grad_norm), "the gradient's norm is ", out.grad_norm,
                   " at step ", settings.step, " (loss ", out.loss, ")");
  optimizer.step(settings.learning_rate);
  return out;
}

}  // namespace fovea
