// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/affine.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "fovea/base/log.h"
#include "fovea/kernels/dispatch.h"

namespace fovea {
namespace {

constexpr int64_t kMostRows = 8;
// Bytes of weights that one thread reads in the time it takes to wake another.
constexpr int64_t kBytesPerThread = 1 << 19;
constexpr int64_t kWidened = 1 << 20;  // numbers of a weight that are widened at a time: they stay in the cache

bool takes(const at::Tensor& x, at::ScalarType type) {
  return x.device().is_cpu() && x.scalar_type() == type && x.is_contiguous() &&
         !(c10::GradMode::is_enabled() && x.requires_grad());
}

bool is_skinny(const at::Tensor& x, const Affine& layer) {
  const auto type = x.scalar_type();
  if ((type != at::kFloat && type != at::kBFloat16) || !takes(x, type) || !takes(layer.weight, type)) return false;
  if (layer.weight.dim() != 2 || x.dim() < 1 || x.size(-1) != layer.weight.size(1)) return false;
  if (layer.bias.defined() && (!takes(layer.bias, type) || layer.bias.numel() != layer.weight.size(0))) return false;
  const int64_t width = layer.weight.size(1);
  return width > 0 && x.numel() > 0 && x.numel() <= kMostRows * width;
}

// One range of outputs after the other, split among threads as if they were one layer's. Half-width numbers are widened
// on the way in and rounded once, on the way out.
void run_skinny(const at::Tensor& x, const Affine* layers, at::Tensor* out, int count) {
  if (log_wanted("dispatch")) log("dispatch", "affine: few rows, our kernel");
  const bool narrow = x.scalar_type() == at::kBFloat16;
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const at::Tensor input = narrow ? x.to(at::kFloat) : x;
  at::Tensor wide[3], bias[3];
  SkinnyLinear calls[3];
  int64_t ends[3], total = 0;
  for (int i = 0; i < count; ++i) {
    const Affine& layer = layers[i];
    const int64_t outputs = layer.weight.size(0);
    auto shape = x.sizes().vec();
    shape.back() = outputs;
    wide[i] = at::empty(shape, x.options().dtype(at::kFloat));
    bias[i] = narrow && layer.bias.defined() ? layer.bias.to(at::kFloat) : layer.bias;
    const Matrix weight{layer.weight.data_ptr(), narrow ? Number::kBFloat16 : Number::kFloat, width, 1};
    calls[i] = {input.const_data_ptr<float>(),
                weight,
                bias[i].defined() ? bias[i].const_data_ptr<float>() : nullptr,
                wide[i].data_ptr<float>(),
                rows,
                width,
                outputs};
    ends[i] = total += outputs;
  }
  const int64_t grain = std::max<int64_t>(16, kBytesPerThread / (width * (narrow ? 2 : 4)) / 16 * 16);
  at::parallel_for(0, total, grain, [&](int64_t begin, int64_t end) {
    for (int i = 0; i < count; ++i) {
      const int64_t first = i == 0 ? 0 : ends[i - 1], from = std::max(begin, first), to = std::min(end, ends[i]);
      if (from < to) isa().skinny_linear(calls[i], from - first, to - first);
    }
  });
  for (int i = 0; i < count; ++i) out[i] = narrow ? wide[i].to(x.scalar_type()) : wide[i];
}

bool is_better_widened(const at::Tensor& x, const Affine& layer) {
  return half_products_are_slow() && x.numel() > 0 && x.dim() > 0 && layer.weight.dim() == 2 &&
         takes(x, at::kBFloat16) && takes(layer.weight, at::kBFloat16) &&
         (!layer.bias.defined() || takes(layer.bias, at::kBFloat16));
}

at::Tensor run_widened(const at::Tensor& x, const Affine& layer) {
  if (log_wanted("dispatch")) log("dispatch", "affine: bf16 widened to f32, block by block");
  const int64_t outputs = layer.weight.size(0), width = layer.weight.size(1);
  const at::Tensor input = x.to(at::kFloat);
  auto shape = x.sizes().vec();
  shape.back() = outputs;
  at::Tensor out = at::empty(shape, x.options());
  const int64_t block = std::max<int64_t>(1, kWidened / std::max<int64_t>(1, width));
  for (int64_t first = 0; first < outputs; first += block) {
    const int64_t count = std::min(block, outputs - first);
    std::optional<at::Tensor> bias;
    if (layer.bias.defined()) bias = layer.bias.narrow(0, first, count).to(at::kFloat);
    out.narrow(-1, first, count).copy_(at::linear(input, layer.weight.narrow(0, first, count).to(at::kFloat), bias));
  }
  return out;
}

}  // namespace

bool half_products_are_slow() {
  static const bool slow = at::get_cpu_capability() == "AVX2";
  return slow;
}

at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const Affine layer{weight, bias};
  if (is_skinny(x, layer)) {
    at::Tensor out;
    run_skinny(x, &layer, &out, 1);
    return out;
  }
  if (is_better_widened(x, layer)) return run_widened(x, layer);
  return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

std::array<at::Tensor, 3> affine3(const at::Tensor& x, const std::array<Affine, 3>& layers) {
  std::array<at::Tensor, 3> out;
  if (std::all_of(layers.begin(), layers.end(), [&](const Affine& layer) { return is_skinny(x, layer); })) {
    run_skinny(x, layers.data(), out.data(), 3);
  } else {
    for (size_t i = 0; i < 3; ++i) out[i] = affine(x, layers[i].weight, layers[i].bias);
  }
  return out;
}

}  // namespace fovea
