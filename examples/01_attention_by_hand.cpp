// Scaled dot-product attention (Vaswani et al. 2017, equation 1) step by step on three tiny tokens, and why the scores
// are divided by √d: without that the softmax saturates and its gradient dies.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <array>
#include <cmath>

#include "show.h"

using namespace fovea;

namespace {

constexpr int kTokens = 3, kWidth = 2;
using Matrix = std::array<std::array<double, kWidth>, kTokens>;

Tensor tensor_of(const Matrix& m) {
  return at::tensor({m[0][0], m[0][1], m[1][0], m[1][1], m[2][0], m[2][1]}, at::kDouble).view({1, 1, kTokens, kWidth});
}

// Median over queries of |∂loss/∂scores|, for random queries and keys of width d and some loss of the output.
double gradient_norm(int64_t d, std::optional<double> scale) {
  at::manual_seed(1);
  const Tensor q = at::randn({1, 1, 512, d}), k = at::randn({1, 1, 64, d}), v = at::randn({1, 1, 64, 16});
  const Tensor zero = at::zeros({512, 64}).requires_grad_();  // a bias of 0: its gradient is that of the scores
  attention(q, k, v, {.score = scores::dense(zero), .scale = scale}).select(-1, 0).sum().backward();
  return zero.grad().norm(2, -1).median().item<double>();
}

}  // namespace

int main() {
  const std::vector<std::string> names{"the", "cat", "sleeps"};
  const Matrix query{{{1, 0}, {0, 2}, {1, 1}}}, key{{{1, 0}, {1, 2}, {0, 1}}}, value{{{1, 0}, {0, 1}, {5, 5}}};

  double weight[kTokens][kTokens], output[kTokens][kWidth] = {};
  for (int i = 0; i < kTokens; ++i) {
    double sum = 0;
    std::printf("%s\n", names[size_t(i)].c_str());
    for (int j = 0; j < kTokens; ++j) {
      const double score = query[i][0] * key[j][0] + query[i][1] * key[j][1];  // 1. how well query i and key j agree
      const double scaled = score / std::sqrt(double(kWidth));                 // 2. in units of its usual size
      sum += weight[i][j] = std::exp(scaled);                                  // 3. softmax: positive, …
      std::printf("  looks at %-8s q·k = %.0f, /√2 = %.3f, exp = %.3f\n", names[size_t(j)].c_str(), score, scaled,
                  weight[i][j]);
    }
    for (int j = 0; j < kTokens; ++j) {
      weight[i][j] /= sum;                                                          // … and summing to 1
      for (int e = 0; e < kWidth; ++e) output[i][e] += weight[i][j] * value[j][e];  // 4. a weighted mean of the values
    }
    std::printf("  weights %.3f %.3f %.3f  ->  output %.3f %.3f\n", weight[i][0], weight[i][1], weight[i][2],
                output[i][0], output[i][1]);
  }

  const Tensor have = attention(tensor_of(query), tensor_of(key), tensor_of(value));  // [1, 1, 3, 2]
  const Tensor want =
      tensor_of({{{output[0][0], output[0][1]}, {output[1][0], output[1][1]}, {output[2][0], output[2][1]}}});
  show("\nfovea::attention gives", have, names);
  claim(difference(have, want) < 1e-12, "one call equals the four steps");

  std::printf("\nmedian norm of the scores' gradient, 64 keys, unit-normal queries and keys of width d\n");
  std::printf("  %6s %14s %14s\n", "d", "with 1/sqrt(d)", "without");
  std::vector<double> with, without;
  for (const int64_t d : {4, 16, 64, 256, 1024}) {
    with.push_back(gradient_norm(d, std::nullopt));
    without.push_back(gradient_norm(d, 1.0));
    std::printf("  %6ld %14.6f %14.6f\n", long(d), with.back(), without.back());
  }
  claim(with.back() > 0.5 * with.front() && with.back() < 2 * with.front(),
        "scaled, the gradient keeps its size whatever the width");
  claim(without.back() < 0.02 * without.front(),
        "unscaled, a width of 1024 leaves under a fiftieth of it: nothing is learned");
}
