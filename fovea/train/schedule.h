// Learning-rate schedules as pure functions of the step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fovea/train/options.h"

namespace fovea {

// What multiplies the peak learning rate in update number `step` (0 … steps − 1) of `steps`.
//
// Warm-up: (step + 1) / warmup, so that the first update already counts. After it, with p = (step − warmup) / (steps −
// warmup) in [0, 1) and m = min_ratio:
//   constant      1
//   linear        1 − (1 − m) p
//   cosine        m + (1 − m) (1 + cos πp) / 2      (Loshchilov & Hutter 2017, one cycle)
//   inverse_sqrt  max(m, √(w / (step + 1))), w = max(warmup, 1)   (Vaswani et al. 2017, equation 3, relative to its
//   peak)
double schedule_factor(const ScheduleOptions& options, int64_t step, int64_t steps);

// Error(kConfig) for an unknown name or a value out of range.
void check_schedule(const ScheduleOptions& options);

}  // namespace fovea
