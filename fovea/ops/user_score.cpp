// A user's score rule as a differentiable function: the definition, element by element in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/ops/bind.h"
#include "fovea/ops/reference.h"

namespace fovea {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct UserScoreHolder : torch::CustomClassHolder {
  explicit UserScoreHolder(UserScorePtr r) : rule(std::move(r)) {}
  UserScorePtr rule;
};

std::vector<ArrayView> views_of(at::TensorList learned, std::vector<Tensor>& storage) {
  std::vector<ArrayView> views;
  for (const auto& tensor : learned) views.push_back(view_of(tensor, storage, at::kDouble));
  return views;
}

// visit(element, b, h, q, k) for all scores in order: gradients of learned numbers are sums, so the order is fixed.
template <class F>
void for_each_score(const Tensor& scores, int64_t first_batch, const F& visit) {
  const int64_t B = scores.size(0), H = scores.size(1), T = scores.size(2), S = scores.size(3);
  int64_t i = 0;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t q = 0; q < T; ++q)
        for (int64_t k = 0; k < S; ++k) visit(i++, first_batch + b, h, q, k);
}

class UserScoreFunction : public torch::autograd::Function<UserScoreFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& scores, at::TensorList learned, const UserScorePtr& rule, int64_t first_batch) {
    std::vector<Tensor> saved{scores};
    saved.insert(saved.end(), learned.begin(), learned.end());
    context->save_for_backward(saved);
    context->saved_data["rule"] = c10::IValue::make_capsule(c10::make_intrusive<UserScoreHolder>(rule));
    context->saved_data["first_batch"] = first_batch;

    std::vector<Tensor> storage;
    const auto views = views_of(learned, storage);
    const auto in = scores.detach().to(at::kCPU, at::kDouble).contiguous();
    auto out = at::empty_like(in);
    const double* from = in.data_ptr<double>();
    double* to = out.data_ptr<double>();
    for_each_score(in, first_batch, [&](int64_t i, int64_t b, int64_t h, int64_t q, int64_t k) { to[i] = rule->value(from[i], views, b, h, q, k); });
    return out.to(scores.options());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, !at::GradMode::is_enabled(),
                     "fovea::attention: second derivatives through a user's score rule are not supported; use registered scores");
    const auto saved = context->get_saved_variables();
    const auto rule = c10::static_intrusive_pointer_cast<UserScoreHolder>(context->saved_data["rule"].toCapsule())->rule;
    const at::TensorList learned = at::TensorList(saved).slice(1);

    std::vector<Tensor> storage, own_tensors;
    const auto views = views_of(learned, storage);
    std::vector<double*> own;
    for (const auto& tensor : learned) {
      own_tensors.push_back(at::zeros(tensor.sizes(), at::kDouble));
      own.push_back(own_tensors.back().data_ptr<double>());
    }
    const auto scores = saved[0].detach().to(at::kCPU, at::kDouble).contiguous();
    auto gradient = gradients[0].detach().to(at::kCPU, at::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
    const double* score = scores.data_ptr<double>();
    double* g = gradient.data_ptr<double>();
    for_each_score(scores, context->saved_data["first_batch"].toInt(), [&](int64_t i, int64_t b, int64_t h, int64_t q, int64_t k) {
      // A hidden score passes no gradient, whatever the rule's derivative is there.
      if (g[i] != 0) g[i] *= rule->backward(score[i], g[i], views, b, h, q, k, own.data());
    });

    variable_list out{gradient.to(gradients[0].options())};
    for (size_t i = 0; i < own_tensors.size(); ++i) out.push_back(own_tensors[i].to(learned[i].options()));
    out.insert(out.end(), 2, Tensor());  // rule, first_batch
    return out;
  }
};

}  // namespace

Tensor define_user_score(const Score::Term& term, const Tensor& scores, int64_t first_batch) {
  return UserScoreFunction::apply(scores, at::TensorList(term.data), term.user, first_batch);
}

}  // namespace fovea
