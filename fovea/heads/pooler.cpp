// SPDX-License-Identifier: Apache-2.0
#include "fovea/heads/pooler.h"

#include <ATen/ops/arange.h>

#include "fovea/base/check.h"
#include "fovea/layers/dropout.h"
#include "fovea/layers/linear.h"

namespace fovea {

at::Tensor first_token(const at::Tensor& hidden, const at::Tensor& start) {
  FOVEA_CHECK(hidden.dim() == 3 && hidden.size(1) > 0, "hidden is ", hidden.sizes(), ", wanted [B, T, C] with T > 0");
  if (!start.defined()) return hidden.select(1, 0);
  const at::Tensor slot = start.clamp_max(hidden.size(1) - 1);
  return hidden.index({at::arange(hidden.size(0), start.options()), slot});  // [B, C]
}

PoolerImpl::PoolerImpl(PoolerOptions options)
    : options_(std::move(options)), activation_(activation(options_.activation)) {
  FOVEA_CHECK_CONFIG(options_.width > 0, "pooler: width is ", options_.width, ", wanted at least 1");
  if (options_.output_width == 0) options_.output_width = options_.width;
  FOVEA_CHECK_CONFIG(options_.output_width > 0, "pooler: output_width is ", options_.output_width,
                     ", wanted at least 1");
  check_probability("pooler: dropout", options_.dropout);
  dense = register_module("dense", make_linear(options_.width, options_.output_width));
}

at::Tensor PoolerImpl::forward(const at::Tensor& hidden, const at::Tensor& start) const {
  return activation_(linear(dense, drop(first_token(hidden, start), options_.dropout,
                                        is_training())));  // [B, P]
}

}  // namespace fovea
