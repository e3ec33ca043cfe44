// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/dropout.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>

#include "fovea/base/check.h"

namespace fovea {

at::Tensor drop(const at::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  // LibTorch multiplies by zero, which keeps NaN.
  if (p == 1) return x.masked_fill(at::full({}, true, x.options().dtype(at::kBool)), 0);
  return at::dropout(x, p, true);
}

void check_probability(const char* what, double p) {
  FOVEA_CHECK_CONFIG(p >= 0 && p <= 1, what, " is ", p, ", wanted a probability in 0 … 1");
}

}  // namespace fovea
