// The first pass of a generation: checks the call, lays the prompts out as a batch, runs them through the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/generate/options.h"
#include "fovea/models/model.h"

namespace fovea {

struct Prefill {
  DecoderState state;  // one row a prompt
  at::Tensor logits;   // [B, 1, V], for the first new token
};

// The errors that generate() promises.
void check_call(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                const GenerateOptions& options);

// Needs at least one prompt.
Prefill prefill(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                const GenerateOptions& options);

// int64 [N].
at::Tensor integers(const std::vector<int64_t>& values, at::Device device);

// How many tokens a row may still write after a prompt of this length. The last one needs no position: nothing reads
// it.
int64_t room_after(const GenerativeModelImpl& model, int64_t prompt_length);

}  // namespace fovea
