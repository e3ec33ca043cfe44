// Rules of one's own, as lambdas: a mask over a tree, a penalty whose strength is learned, any function of the score.
// No class to derive, no kernel to edit; the gradient of the learned numbers is found by running the lambda.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <cmath>

#include "show.h"

using namespace fovea;

int main() {
  constexpr int64_t T = 7, H = 2, D = 8;
  at::manual_seed(1);
  const auto random = [] { return at::randn({1, H, T, D}, at::kDouble); };
  const Tensor q = random(), k = random(), v = random();

  // A mask: each node of a tree sees itself and its ancestors.
  //        0
  //      1   2
  //     3 4   5
  //            6
  const std::vector<int64_t> parent{-1, 0, 0, 1, 1, 2, 5};
  const Mask tree = masks::rule([&parent](int64_t, int64_t, int64_t node, int64_t seen) {
    while (node > seen) node = parent[size_t(node)];
    return node == seen;
  });
  std::printf("row i: what node i sees of the tree, %.0f %% of all pairs\n%s", 100 * tree.density(T, T),
              tree.draw(T, T).c_str());
  Tensor other = v.clone();
  other.select(2, 2) += 1;  // node 2 is an ancestor of 5 and 6 only
  const Tensor moved =
      (attention(q, k, v, {.mask = tree}) - attention(q, k, other, {.mask = tree})).abs().amax({0, 1, 3});
  claim(at::equal(moved.gt(0), at::tensor({0, 0, 1, 0, 0, 1, 1}).to(at::kBool)),
        "changing node 2 moves 2, 5 and 6, nobody else");

  // A score: keys lose by distance, each head as strongly as it learns to.
  const Tensor strength = at::tensor({0.1, 0.7}, at::kDouble).requires_grad_();
  const Score decay = scores::add({{"strength", strength}}, [](auto p, int64_t, int64_t h, int64_t query, int64_t key) {
    return -p[0][h] * std::abs(query - key);
  });
  const auto loss = [&] { return attention(q, k, v, {.mask = tree, .score = decay}).square().sum(); };
  loss().backward();
  std::vector<double> numeric;
  for (int64_t h = 0; h < H; ++h) {
    const at::NoGradGuard no_grad;
    const auto shifted = [&](double by) {
      strength[h] += by;
      const double value = loss().item<double>();
      strength[h] -= by;
      return value;
    };
    numeric.push_back((shifted(1e-5) - shifted(-1e-5)) / 2e-5);
  }
  show("\ngradient of the two strengths", at::stack({strength.grad(), at::tensor(numeric, at::kDouble)}),
       {"autograd", "measured"});
  claim(difference(strength.grad(), at::tensor(numeric, at::kDouble)) < 1e-7,
        "the derivative of the lambda is right, unwritten");

  // So it can be trained: pull the output to what known strengths give.
  const Tensor wanted_strength = at::tensor({0.5, 0.2}, at::kDouble);
  const auto output = [&](const Tensor& by) {
    return attention(q, k, v, {.score = scores::slopes(by)});
  };  // the built-in twin
  const Tensor wanted = output(wanted_strength);
  for (int step = 0; step < 60; ++step) {
    strength.mutable_grad().zero_();
    (attention(q, k, v, {.score = decay}) - wanted).square().sum().backward();
    strength.data().sub_(0.02 * strength.grad());
  }
  show("\nstrengths after 60 steps, and those wanted", at::stack({strength, wanted_strength}), {"learned", "wanted"});
  claim(difference(strength, wanted_strength) < 1e-3, "the penalty learned its strengths");

  // Any function of the score, with its derivative: a soft cap, which is also an option of the call.
  const Score cap = scores::map([](auto score, auto...) { return 2 * std::tanh(score / 2); },
                                [](auto score, auto...) { return 1 - std::pow(std::tanh(score / 2), 2); });
  claim(difference(attention(q, k, v, {.score = cap}), attention(q, k, v, {.soft_cap = 2})) < 1e-12,
        "a cap of one's own equals the built-in one");
}
