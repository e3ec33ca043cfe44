// What a training run would cost, without writing anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/train/options.h"
#include "fovea/train/trainer.h"

namespace fovea {

// Shapes, parameters and the memory they need; then one step, measured. The model is changed by it.
void show_dry_run(const TrainParts& parts, const TrainOptions& options, bool json);

}  // namespace fovea
