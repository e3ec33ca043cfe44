// What is added to a score because of where query and key stand, or done to it. A score bias is a typed value, like a mask.
//
//   attention(q, k, v, {.mask = masks::causal(), .score = scores::slopes(slopes)});
//   auto decay = scores::add({{"strength", strength}},                       // learned, [H]
//                            [](auto p, int64_t b, int64_t h, int64_t q, int64_t k) { return -p[0][h] * std::abs(q - k); });
//
// `a + b` applies a, then b. Learned tensors receive gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/scores/rule.h"

namespace fovea {

class Score {
 public:
  struct Term {
    std::string name;  // registered, or "rule" with a user's own
    std::vector<int64_t> numbers;
    std::vector<at::Tensor> data;
    UserScorePtr user;
  };

  Score() = default;  // the scores as they are
  explicit Score(Term term) : terms_{std::make_shared<const Term>(std::move(term))} {}
  static Score term(std::string name, std::vector<int64_t> numbers = {}, std::vector<at::Tensor> data = {});

  bool is_empty() const { return terms_.empty(); }
  const std::vector<std::shared_ptr<const Term>>& terms() const { return terms_; }
  friend Score operator+(const Score& first, const Score& then);

  // As Mask::encode: "slopes(;1)+dense(;1)" and the tensors in order.
  std::string encode(std::vector<at::Tensor>& data) const;
  static Score decode(std::string_view description, at::TensorList data);

 private:
  std::vector<std::shared_ptr<const Term>> terms_;
};

namespace scores {

using Learned = std::vector<std::pair<std::string, at::Tensor>>;

namespace detail {
Score user_score(UserScorePtr user, const Learned& learned);
}

// score + f(p, b, h, q, k): p[i][j] (one axis), p[i](j, k, …) (more) read the learned tensors. A generic lambda (`auto p`)
// gets the gradients of the learned tensors for free.
template <class F>
Score add(const Learned& learned, F f) {
  return detail::user_score(std::make_shared<AddRule<F>>(std::move(f)), learned);
}
// The same with the derivative by hand: df(p, b, h, q, k, emit) calls emit(i, element, ∂f/∂p[i][element]).
template <class F, class DF>
Score add(const Learned& learned, F f, DF df) {
  return detail::user_score(std::make_shared<AddRule<F, DF>>(std::move(f), std::move(df)), learned);
}
// Without learned tensors: f(b, h, q, k).
template <class F>
Score add(F f) {
  auto g = [f = std::move(f)](auto, int64_t b, int64_t h, int64_t q, int64_t k) { return f(b, h, q, k); };
  return add(Learned{}, std::move(g));
}
// Any function of the score and its derivative: f(score, b, h, q, k), df(score, b, h, q, k).
template <class F, class DF>
Score map(F f, DF df) {
  return detail::user_score(std::make_shared<MapRule<F, DF>>(std::move(f), std::move(df)), {});
}

}  // namespace scores
}  // namespace fovea
