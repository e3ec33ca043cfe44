// The operators that other languages see: torch.ops.load_library("libfovea.so"), then torch.ops.fovea.attention(…).
//
// Masks and scores travel as an encoded description (Mask::encode, Score::encode) and a list of their tensors, so that every
// learned table is an input that autograd sees.
// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

#include "fovea/ops/attention.h"

namespace fovea {
namespace {

AttentionOptions decode_options(c10::string_view mask, at::TensorList mask_data, c10::string_view score, at::TensorList score_data,
                                std::optional<double> scale, double soft_cap, double dropout, std::optional<int64_t> seed) {
  return {.mask = Mask::decode(mask, mask_data),
          .score = Score::decode(score, score_data),
          .scale = scale,
          .soft_cap = soft_cap,
          .dropout = dropout,
          .dropout_seed = seed};
}

Tensor attention_operator(const Tensor& query, const Tensor& key, const Tensor& value, c10::string_view mask, at::TensorList mask_data,
                          c10::string_view score, at::TensorList score_data, std::optional<double> scale, double soft_cap, double dropout,
                          std::optional<int64_t> seed) {
  return attention(query, key, value, decode_options(mask, mask_data, score, score_data, scale, soft_cap, dropout, seed));
}

std::tuple<Tensor, Tensor, Tensor> attention_detailed_operator(const Tensor& query, const Tensor& key, const Tensor& value, c10::string_view mask,
                                                               at::TensorList mask_data, c10::string_view score, at::TensorList score_data,
                                                               std::optional<double> scale, double soft_cap, double dropout,
                                                               std::optional<int64_t> seed) {
  const auto out = attention_detailed(query, key, value, decode_options(mask, mask_data, score, score_data, scale, soft_cap, dropout, seed));
  return {out.output, out.weights, out.log_sum_exp};
}

}  // namespace

#define FOVEA_ATTENTION_ARGUMENTS                                                                                                     \
  "(Tensor query, Tensor key, Tensor value, str mask, Tensor[] mask_data, str score, Tensor[] score_data, "                             \
  "float? scale=None, float soft_cap=0.0, float dropout=0.0, int? seed=None)"

TORCH_LIBRARY(fovea, library) {
  library.def("attention" FOVEA_ATTENTION_ARGUMENTS " -> Tensor");
  library.def("attention_detailed" FOVEA_ATTENTION_ARGUMENTS " -> (Tensor output, Tensor weights, Tensor log_sum_exp)");
}

// The reference is made of differentiable operations, so it serves every dispatch key.
TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, library) {
  library.impl("attention", attention_operator);
  library.impl("attention_detailed", attention_detailed_operator);
}

}  // namespace fovea
