// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tanh.h>

#include "fovea/base/registry.h"
#include "fovea/ops/gelu.h"

namespace fovea {
namespace {

using at::Tensor;

Tensor silu(const Tensor& x) { return at::silu(x); }

const Registry<Activation>& activations() {
  static const Registry<Activation> table = [] {
    Registry<Activation> t("activation");
    t.add("relu", [](const Tensor& x) { return at::relu(x); });
    t.add("gelu", [](const Tensor& x) { return at::gelu(x); });
    for (const char* name : {"gelu_tanh", "gelu_new", "gelu_pytorch_tanh"}) t.add(name, gelu_tanh);
    t.add("quick_gelu", [](const Tensor& x) { return x * at::sigmoid(1.702 * x); });
    for (const char* name : {"silu", "swish"}) t.add(name, silu);
    t.add("relu2", [](const Tensor& x) { return at::square(at::relu(x)); });
    t.add("hard_swish", [](const Tensor& x) { return at::hardswish(x); });
    t.add("tanh", [](const Tensor& x) { return at::tanh(x); });
    t.add("sigmoid", [](const Tensor& x) { return at::sigmoid(x); });
    t.add("identity", [](const Tensor& x) { return x; });
    return t;
  }();
  return table;
}

}  // namespace

Activation activation(const std::string& name) { return activations().at(name); }
std::vector<std::string> activation_names() { return activations().names(); }

}  // namespace fovea
