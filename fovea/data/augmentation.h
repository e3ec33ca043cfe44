// Pictures changed a little before a model learns from them, so that it does not learn them by heart. What happens to a
// picture is a function of a seed alone: the same in a run that was stopped and goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea {

struct AugmentationOptions {
  double flip = 0;    // probability that left and right change places
  int64_t shift = 0;  // pixels at most, up or down and to either side; what comes in is black
  double erase = 0;   // probability that a rectangle becomes black (Zhong et al. 2020, algorithm 1)
  bool any() const { return flip > 0 || shift > 0 || erase > 0; }
};

// Error(kConfig) for a probability outside 0 … 1, for a negative shift.
void check_augmentation(const AugmentationOptions& options);

// uint8 [channels, Y, X] -> the same shape; shifting by up to n pixels is a random crop of the picture with n black
// ones around it. Each kind of change has draws of its own, so that switching one on leaves the others as they were.
at::Tensor augmented(const at::Tensor& image, const AugmentationOptions& options, uint64_t seed);

}  // namespace fovea
