// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {
namespace {

// Where a schedule stands after the warm-up.
struct Place {
  double progress;   // p
  double min_ratio;  // m
  double since;      // √(w / (step + 1))
};
using Shape = double (*)(const Place&);

const std::map<std::string, Shape>& shapes() {
  static const std::map<std::string, Shape> table = {
      {"constant", [](const Place&) { return 1.0; }},
      {"linear", [](const Place& at) { return 1 - (1 - at.min_ratio) * at.progress; }},
      {"cosine",
       [](const Place& at) {
         return at.min_ratio + (1 - at.min_ratio) * (1 + std::cos(std::numbers::pi * at.progress)) / 2;
       }},
      {"inverse_sqrt", [](const Place& at) { return std::max(at.min_ratio, at.since); }},
  };
  return table;
}

}  // namespace

void check_schedule(const ScheduleOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes()) names.push_back(name);
  FOVEA_CHECK_CONFIG(shapes().count(options.name) > 0, "schedule.name is \"", options.name, "\"",
                     suggestion(options.name, names));
  FOVEA_CHECK_CONFIG(options.warmup >= 0, "schedule.warmup is ", options.warmup, ", must be at least 0");
  FOVEA_CHECK_CONFIG(options.min_ratio >= 0 && options.min_ratio <= 1, "schedule.min_ratio is ", options.min_ratio,
                     ", must be between 0 and 1");
}

double schedule_factor(const ScheduleOptions& options, int64_t step, int64_t steps) {
  check_schedule(options);
  FOVEA_CHECK(step >= 0, "step is ", step, ", must not be negative");
  if (step < options.warmup) return double(step + 1) / double(options.warmup);
  const int64_t after = std::max<int64_t>(steps - options.warmup, 1);
  const double progress = std::min(1.0, double(step - options.warmup) / double(after));
  const double since = std::sqrt(double(std::max<int64_t>(options.warmup, 1)) / double(step + 1));
  return shapes().at(options.name)({progress, options.min_ratio, since});
}

}  // namespace fovea
