// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "fovea/base/check.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

// Between two values of a sorted list where the place is between them.
double value_at(const std::vector<double>& sorted, double part) {
  const double place = part * double(sorted.size() - 1), below = std::floor(place);
  const size_t i = size_t(below);
  if (i + 1 >= sorted.size()) return sorted.back();
  return sorted[i] + (place - below) * (sorted[i + 1] - sorted[i]);
}

}  // namespace

Interval bootstrap(int64_t items, const std::function<double(const std::vector<int64_t>& counts)>& measure,
                   const BootstrapOptions& options) {
  FOVEA_CHECK(items >= 1, "there are ", items, " items, wanted at least 1");
  FOVEA_CHECK_CONFIG(options.draws >= 1, "bootstrap: draws is ", options.draws, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.confidence > 0 && options.confidence < 1, "bootstrap: confidence is ", options.confidence,
                     ", wanted more than 0 and less than 1");
  std::vector<double> values;
  for (int64_t draw = 0; draw < options.draws; ++draw) {
    std::vector<int64_t> counts(static_cast<size_t>(items));
    for (int64_t i = 0; i < items; ++i)
      ++counts[size_t(random_below(items, options.seed, uint64_t(draw), uint64_t(i)))];
    values.push_back(measure(counts));
  }
  std::sort(values.begin(), values.end());
  const double outside = (1 - options.confidence) / 2;
  return {value_at(values, outside), value_at(values, 1 - outside)};
}

}  // namespace fovea
