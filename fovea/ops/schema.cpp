// The operators that other languages see: torch.ops.load_library("libfovea.so"), then torch.ops.fovea.attention(…).
//
// Masks and scores travel as an encoded description (Mask::encode, Score::encode) and a list of their tensors, so that
// every learned table is an input that autograd sees.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "fovea/base/check.h"
#include "fovea/ops/attention.h"

namespace fovea {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a call consists of besides its tensors.
struct Words {
  std::string mask, score;
  std::optional<double> scale;
  double soft_cap, dropout;
  std::optional<int64_t> seed;
};

AttentionOptions options_of(const Words& words, at::TensorList mask_data, at::TensorList score_data) {
  return {.mask = Mask::decode(words.mask, mask_data),
          .score = Score::decode(words.score, score_data),
          .scale = words.scale,
          .soft_cap = words.soft_cap,
          .dropout = words.dropout,
          .dropout_seed = words.seed};
}

#define FOVEA_PARAMETERS                                                                                        \
  const Tensor &query, const Tensor &key, const Tensor &value, [[maybe_unused]] c10::string_view mask,          \
      [[maybe_unused]] at::TensorList mask_data, [[maybe_unused]] c10::string_view score,                       \
      [[maybe_unused]] at::TensorList score_data, [[maybe_unused]] std::optional<double> scale,                 \
      [[maybe_unused]] double soft_cap, [[maybe_unused]] double dropout, [[maybe_unused]] std::optional<int64_t> seed
#define FOVEA_WORDS \
  Words { std::string(mask), std::string(score), scale, soft_cap, dropout, seed }

Tensor attention_on_cpu(FOVEA_PARAMETERS) {
  return attention(query, key, value, options_of(FOVEA_WORDS, mask_data, score_data)).contiguous();
}

Tensor attention_shape(FOVEA_PARAMETERS) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
                   "attention: query, key and value have ", query.dim(), ", ", key.dim(), " and ", value.dim(),
                   " axes; wanted four");
  return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2), value.sym_size(3)},
                          query.options());
}

// The gradients of query, key, value and all score data, by computing the call anew: what a traced graph runs.
std::vector<Tensor> attention_backward_on_cpu(const Tensor& gradient, FOVEA_PARAMETERS) {
  const at::AutoGradMode differentiate(true);
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(at::isFloatingType(x.scalar_type())); };
  std::vector<Tensor> leaves{leaf(query), leaf(key), leaf(value)};
  for (const auto& tensor : score_data) leaves.push_back(leaf(tensor));
  const Tensor output =
      attention(leaves[0], leaves[1], leaves[2], options_of(FOVEA_WORDS, mask_data, at::TensorList(leaves).slice(3)));
  std::vector<Tensor> wanted, out;
  for (const auto& x : leaves)
    if (x.requires_grad()) wanted.push_back(x);
  const auto found = torch::autograd::grad({output}, wanted, {gradient}, std::nullopt, false, /*allow_unused=*/true);
  auto next = found.begin();
  for (const auto& x : leaves) {
    const Tensor g = x.requires_grad() ? *next++ : Tensor();
    out.push_back(g.defined() ? g.contiguous() : at::zeros_like(x, at::MemoryFormat::Contiguous));
  }
  return out;
}

std::vector<Tensor> attention_backward_shape(const Tensor&, FOVEA_PARAMETERS) {
  std::vector<Tensor> out;
  for (const Tensor& x : {query, key, value}) out.push_back(at::empty_like(x, at::MemoryFormat::Contiguous));
  for (const Tensor& x : score_data) out.push_back(at::empty_like(x, at::MemoryFormat::Contiguous));
  return out;
}

Tensor call_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Words& w,
                      at::TensorList mask_data, at::TensorList score_data) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("fovea::attention", "").typed<Tensor(FOVEA_PARAMETERS)>();
  return op.call(query, key, value, w.mask, mask_data, w.score, score_data, w.scale, w.soft_cap, w.dropout, w.seed);
}

// Autograd over the two operators, where tensors have no numbers yet (tracing).
class TracedFunction : public torch::autograd::Function<TracedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Words& words, at::TensorList mask_data, at::TensorList score_data) {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::vector<Tensor> saved{query, key, value};
    saved.insert(saved.end(), mask_data.begin(), mask_data.end());
    saved.insert(saved.end(), score_data.begin(), score_data.end());
    context->save_for_backward(saved);
    auto& data = context->saved_data;
    data["mask"] = words.mask, data["score"] = words.score, data["scale"] = words.scale,
    data["soft_cap"] = words.soft_cap;
    data["dropout"] = words.dropout, data["seed"] = words.seed, data["masks"] = int64_t(mask_data.size());
    return call_attention(query, key, value, words, mask_data, score_data);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const size_t masks = size_t(data["masks"].toInt());
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("fovea::attention_backward", "")
                               .typed<std::vector<Tensor>(const Tensor&, FOVEA_PARAMETERS)>();
    const std::string mask = data["mask"].toStringRef(), score = data["score"].toStringRef();
    const auto found =
        op.call(gradients[0], saved[0], saved[1], saved[2], mask, at::TensorList(saved).slice(3, masks), score,
                at::TensorList(saved).slice(3 + masks), data["scale"].toOptional<double>(), data["soft_cap"].toDouble(),
                data["dropout"].toDouble(), data["seed"].toOptional<int64_t>());
    variable_list out(found.begin(), found.begin() + 3);
    out.emplace_back();  // words
    out.resize(out.size() + masks);
    out.insert(out.end(), found.begin() + 3, found.end());
    return out;
  }
};

Tensor attention_with_gradient(FOVEA_PARAMETERS) {
  const bool traced = query.is_meta() || query.key_set().has(c10::DispatchKey::Python);
  if (traced) return TracedFunction::apply(query, key, value, FOVEA_WORDS, mask_data, score_data);
  return attention_on_cpu(query, key, value, mask, mask_data, score, score_data, scale, soft_cap, dropout, seed);
}

// Under autocast query, key and value take its type, as PyTorch's own attention does.
Tensor attention_under_autocast(FOVEA_PARAMETERS) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::autocast_dispatch_keyset);
  const auto type = at::autocast::get_autocast_dtype(at::kCPU);
  const auto cast = [&](const Tensor& x) { return at::autocast::cached_cast(type, x, c10::DeviceType::CPU); };
  return call_attention(cast(query), cast(key), cast(value), FOVEA_WORDS, mask_data, score_data);
}

std::tuple<Tensor, Tensor, Tensor> attention_detailed_operator(FOVEA_PARAMETERS) {
  const auto out = attention_detailed(query, key, value, options_of(FOVEA_WORDS, mask_data, score_data));
  return {out.output, out.weights, out.log_sum_exp};
}

#undef FOVEA_PARAMETERS
#undef FOVEA_WORDS

}  // namespace

#define FOVEA_ATTENTION_ARGUMENTS                                                                          \
  "Tensor query, Tensor key, Tensor value, str mask, Tensor[] mask_data, str score, Tensor[] score_data, " \
  "float? scale=None, float soft_cap=0.0, float dropout=0.0, int? seed=None)"

TORCH_LIBRARY(fovea, library) {
  library.def("attention(" FOVEA_ATTENTION_ARGUMENTS " -> Tensor");
  library.def("attention_backward(Tensor gradient, " FOVEA_ATTENTION_ARGUMENTS " -> Tensor[]");
  library.def("attention_detailed(" FOVEA_ATTENTION_ARGUMENTS
              " -> (Tensor output, Tensor weights, Tensor log_sum_exp)");
}

TORCH_LIBRARY_IMPL(fovea, CPU, library) {
  library.impl("attention", attention_on_cpu);
  library.impl("attention_backward", attention_backward_on_cpu);
}

TORCH_LIBRARY_IMPL(fovea, Meta, library) {
  library.impl("attention", attention_shape);
  library.impl("attention_backward", attention_backward_shape);
}

TORCH_LIBRARY_IMPL(fovea, Autograd, library) { library.impl("attention", attention_with_gradient); }
TORCH_LIBRARY_IMPL(fovea, AutocastCPU, library) { library.impl("attention", attention_under_autocast); }

// The definition is made of differentiable operations, so it serves every dispatch key.
TORCH_LIBRARY_IMPL(fovea, CompositeImplicitAutograd, library) {
  library.impl("attention_detailed", attention_detailed_operator);
}

}  // namespace fovea
