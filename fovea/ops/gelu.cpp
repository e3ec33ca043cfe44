// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/gelu.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/kernels/dispatch.h"

namespace fovea {
namespace {

constexpr int64_t kNumbersPerThread = 1 << 14;

at::Tensor gelu_forward(const at::Tensor& x) {
  at::Tensor y = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = y.data_ptr<float>();
  at::parallel_for(0, x.numel(), kNumbersPerThread,
                   [&](int64_t begin, int64_t end) { isa().gelu(from + begin, to + begin, end - begin); });
  return y;
}

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return gelu_forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {at::gelu_backward(gradients[0], x, "tanh")};
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor out = at::empty_like(x);
    const float *in = x.const_data_ptr<float>(), *from = gradient.const_data_ptr<float>();
    float* to = out.data_ptr<float>();
    at::parallel_for(0, x.numel(), kNumbersPerThread, [&](int64_t begin, int64_t end) {
      isa().gelu_backward(in + begin, from + begin, to + begin, end - begin);
    });
    return {out};
  }
};

}  // namespace

at::Tensor gelu_tanh(const at::Tensor& x) {
  if (!x.device().is_cpu() || x.scalar_type() != at::kFloat || !x.is_contiguous()) return at::gelu(x, "tanh");
  return at::GradMode::is_enabled() && x.requires_grad() ? GeluFunction::apply(x) : gelu_forward(x);
}

}  // namespace fovea
