// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/fresh.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

namespace fovea {
namespace {

thread_local bool undrawn = false;

}  // namespace

Undrawn::Undrawn() : before_(undrawn) { undrawn = true; }
Undrawn::~Undrawn() { undrawn = before_; }
bool Undrawn::here() { return undrawn; }

at::Tensor fresh_weight(at::IntArrayRef sizes, double std) {
  return undrawn ? at::empty(sizes) : at::randn(sizes) * std;
}

}  // namespace fovea
