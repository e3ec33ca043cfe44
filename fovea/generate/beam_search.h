// Beam search: keeps the `beams` most probable beginnings of each prompt's answer side by side, and returns the best
// answers that ended. All prompts search together, each beam a row of the model's batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/generate/generate.h"
#include "fovea/generate/prefill.h"

namespace fovea {

// prompts × results rows, the best first. A score is Σ (log-probability after the rules) / length^length_penalty, where
// the length counts new tokens, the end token included. A beam ends by an end token, a stop string or the limit, and
// only counts if it was among the `beams` best continuations of its step. Where fewer answers than `results` exist, the
// rest are empty, of score −∞.
std::vector<Generated> beam_search(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                                   const GenerateOptions& options, const Tokenizer* tokenizer, Prefill start);

}  // namespace fovea
