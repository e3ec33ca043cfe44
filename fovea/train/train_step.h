// One update of a model: what a training loop does between two batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/models/model.h"
#include "fovea/train/optimizer.h"

namespace fovea {

struct StepSettings {
  int64_t step = 0;  // for errors
  double learning_rate = 0;
  double label_smoothing = 0;
};

struct StepOutcome {
  double loss = 0;       // nats per token that counts
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;
};

// Forward and backward through each batch, one clipped update. Losses are averaged by token over all batches, so that
// unequal ones give the gradient of their union. Error(kDiverged) naming the step for a loss or a gradient norm that is
// not finite: parameters and moments are then as before. Error(kArgument) where no label counts.
StepOutcome train_step(ModelImpl& model, const std::vector<Batch>& batches, AdamW& optimizer,
                       const StepSettings& settings);

}  // namespace fovea
