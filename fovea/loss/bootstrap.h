// How far a figure measured on a test set would move with another test set of the same kind: the percentile bootstrap
// (Efron & Tibshirani 1993, chapter 13). The items are drawn again with repetition, many times, and the figure is taken
// from each draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace fovea {

struct Interval {
  double low = 0, high = 0;
};

struct BootstrapOptions {
  int64_t draws = 1000;
  double confidence = 0.95;  // the part of the draws between `low` and `high`
  uint64_t seed = 1;
};

// `measure` gets how often each of the `items` was drawn; the counts add up to `items`. A function of the arguments
// alone. Error(kConfig) for impossible options, Error(kArgument) without items.
Interval bootstrap(int64_t items, const std::function<double(const std::vector<int64_t>& counts)>& measure,
                   const BootstrapOptions& options = {});

}  // namespace fovea
