// Initial weights as the models' papers have them. All draw from LibTorch's generator, in the order of the parameters.
// Nothing is drawn while an Undrawn lives (ops/fresh.h). In each: norms become weight 1 and bias 0, other vectors
// (biases) 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

namespace fovea::init {

// Every table and matrix: normal with deviation `std` (GPT-2, BERT: 0.02).
void normal(torch::nn::Module& module, double std);
// Matrices of linear layers: uniform in ±√(6 / (in + out)) (Glorot & Bengio 2010, equation 16; the original
// Transformer); tables of embeddings and positions: normal with deviation 1/√C.
void xavier(torch::nn::Module& module);
// The projections that write to the residual stream (attention.output, cross_attention.output, feed_forward.down) once
// more: normal with deviation std / √(2 · layers) (Radford et al. 2019, section 2.3).
void residual(torch::nn::Module& module, double std, int64_t layers);

}  // namespace fovea::init
