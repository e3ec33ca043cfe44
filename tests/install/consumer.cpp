// The smallest user of fovea: includes the umbrella header, links, computes something it can check.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  const auto q = torch::randn({1, 2, 5, 8}), k = torch::randn({1, 2, 5, 8}), v = torch::randn({1, 2, 5, 8});
  const auto y = fovea::attention(q, k, v, {.mask = fovea::masks::causal()});  // [B, H, T, D]
  // The first query sees the first key alone, so it returns that key's value.
  const bool good = torch::allclose(y.select(2, 0), v.select(2, 0));
  std::puts(good ? "fovea works from outside its tree" : "the first row of causal attention is not the first value");
  return good ? 0 : 1;
}
