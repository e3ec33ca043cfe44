// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/affine.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <c10/core/GradMode.h>

#include <algorithm>

#include "fovea/base/log.h"
#include "fovea/kernels/skinny_linear.h"

namespace fovea {
namespace {

constexpr int64_t kMostRows = 8;
// Weights that one thread reads in the time it takes to wake another.
constexpr int64_t kWeightsPerThread = 1 << 17;

bool takes(const at::Tensor& x) { return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous(); }

bool is_skinny(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!takes(x) || !takes(weight) || weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1)) return false;
  if (bias.defined() && (!takes(bias) || bias.numel() != weight.size(0))) return false;
  const int64_t width = weight.size(1);
  if (width == 0 || x.numel() == 0 || x.numel() > kMostRows * width) return false;
  return !c10::GradMode::is_enabled() || !(x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
}

}  // namespace

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!is_skinny(x, weight, bias)) return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  if (log_wanted("dispatch")) log("dispatch", "affine: few rows, our kernel");
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  at::Tensor out = at::empty(shape, x.options());
  const SkinnyLinear call{x.const_data_ptr<float>(), weight.const_data_ptr<float>(), bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                          out.data_ptr<float>(), x.numel() / weight.size(1), weight.size(1), weight.size(0)};
  const int64_t grain = std::max<int64_t>(4, kWeightsPerThread / weight.size(1) / 4 * 4);
  at::parallel_for(0, call.outputs, grain, [&](int64_t begin, int64_t end) { skinny_linear(call, begin, end); });
  return out;
}

}  // namespace fovea
