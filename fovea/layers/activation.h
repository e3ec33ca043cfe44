// Element-wise activations by name.
//
//   relu                                  max(x, 0)
//   gelu                                  x · Φ(x), exact (Hendrycks & Gimpel 2016, equation 2)
//   gelu_tanh, gelu_new, gelu_pytorch_tanh   its tanh form (section 2 there); the names are Hugging Face's
//   quick_gelu                            x · σ(1.702 x)
//   silu, swish                           x · σ(x)
//   hard_swish                            x · min(max(x + 3, 0), 6) / 6
//   relu2                                 max(x, 0)²
//   tanh, sigmoid, identity
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace fovea {

using Activation = at::Tensor (*)(const at::Tensor&);

// Throws Error(kConfig) that suggests the nearest name.
Activation activation(const std::string& name);
std::vector<std::string> activation_names();

}  // namespace fovea
