// Takes one token among the candidates that the rules left: the best, or one drawn with a generator of its own.
//
// A row's draws depend on its seed and on how many tokens it has written, on nothing else: not on its batch mates, not
// on LibTorch's generator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fovea/generate/logit_rules.h"

namespace fovea {

// The candidate with the highest logit, the lowest id among equals. Needs at least one.
const Candidate& best_candidate(const Candidates& candidates);

// One candidate with probability softmax(logits), by inverting the distribution at `uniform` in [0, 1), in order of id:
// what the rules removed changes the result only through the probabilities. Needs at least one.
const Candidate& draw_candidate(const Candidates& candidates, double uniform);

// The number in [0, 1), 53 bits, with which a row of this seed draws its token number `step`.
double draw_uniform(uint64_t seed, uint64_t step);

}  // namespace fovea
