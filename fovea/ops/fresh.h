// What a layer's weights are before they learn: drawn numbers; or nothing yet, where a file's are about to take their
// place. Drawing takes several times as long as reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea {

// While one lives, what this thread makes is not drawn: its numbers are whatever stood in memory.
class Undrawn {
 public:
  Undrawn();
  ~Undrawn();
  Undrawn(const Undrawn&) = delete;
  Undrawn& operator=(const Undrawn&) = delete;
  static bool here();

 private:
  bool before_;
};

// Normal numbers with deviation `std`, from LibTorch's generator.
at::Tensor fresh_weight(at::IntArrayRef sizes, double std);

}  // namespace fovea
