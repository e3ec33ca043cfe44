// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/randn.h>
#include <torch/types.h>

#include <cmath>

#include "fovea/base/check.h"
#include "fovea/base/size.h"
#include "fovea/ops/affine.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

[[noreturn]] void throw_out_of_range(const at::Tensor& ids, int64_t vocabulary) {
  const at::Tensor flat = ids.flatten().to(at::kLong);
  const at::Tensor outside = (flat < 0).logical_or(flat >= vocabulary).nonzero();
  FOVEA_ASSERT(outside.numel() > 0, "every id is in range");
  const int64_t at = outside[0].item<int64_t>();
  throw Error(ErrorKind::kArgument,
              detail::concat("embedding: token id ", flat[at].item<int64_t>(), " at index ", at,
                             " is outside the vocabulary of ", vocabulary, " (ids 0 … ", vocabulary - 1,
                             "); do the tokenizer and the model belong together?"));
}

}  // namespace

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions options) : options_(options) {
  FOVEA_CHECK_CONFIG(options_.vocabulary > 0, "embedding: vocabulary is ", options_.vocabulary, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.width > 0, "embedding: width is ", options_.width, ", wanted at least 1");
  check_parameters("embedding", double(options_.vocabulary) * double(options_.width));
  weight = register_parameter(
      "weight", fresh_weight({options_.vocabulary, options_.width}, 1 / std::sqrt(double(options_.width))));
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt,
                   "embedding: ids are ", ids.scalar_type(), ", wanted Long or Int");
  at::Tensor x;
  try {
    x = at::embedding(weight, ids);  // [..., C]
  } catch (const c10::IndexError&) {
    throw_out_of_range(ids, options_.vocabulary);  // LibTorch checks each id anyway: only the message is ours
  }
  return options_.scale ? x * std::sqrt(double(options_.width)) : x;
}

at::Tensor EmbeddingImpl::logits(const at::Tensor& x) const { return affine(x, weight); }

}  // namespace fovea
