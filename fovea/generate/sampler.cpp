// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "fovea/base/check.h"
#include "fovea/kernels/dropout.h"

namespace fovea {

const Candidate& best_candidate(const Candidates& candidates) {
  FOVEA_ASSERT(!candidates.empty(), "no candidate");
  return *std::min_element(candidates.begin(), candidates.end(), better);
}

const Candidate& draw_candidate(const Candidates& candidates, double uniform) {
  const Candidate& best = best_candidate(candidates);
  double total = 0;
  for (const Candidate& candidate : candidates) total += std::exp(candidate.logit - best.logit);
  const double wanted = uniform * total;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += std::exp(candidate.logit - best.logit);
    if (sum > wanted) return candidate;
  }
  return best;  // unreachable unless `uniform` is 1
}

double draw_uniform(uint64_t seed, uint64_t step) {
  constexpr uint32_t kPurpose = 0x73616d70;  // keeps these draws apart from other users of the same seed
  const PhiloxBlock block = philox(seed, uint32_t(step), uint32_t(step >> 32), 0, kPurpose);
  const uint64_t bits = uint64_t(block.word[0]) << 32 | block.word[1];
  return double(bits >> 11) * 0x1p-53;
}

}  // namespace fovea
