// Attention against PyTorch's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/fovea/contest.h"
#include "benchmarks/attention_cases.h"

namespace fovea::bench {

Result run_attention_case(const AttentionCase& which, at::ScalarType type, double seconds, const Peaks& peaks);

}  // namespace fovea::bench
