// A run's loss curve, kept up to date from the journal's lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/train/svg.h"

namespace fovea {

class LossCurve {
 public:
  explicit LossCurve(std::string title) : title_(std::move(title)) {}
  // A line of the journal: a step or a validation; others are passed over.
  void add(const nlohmann::json& line);
  std::string svg() const;

 private:
  std::string title_;
  std::vector<CurvePoint> training_, validation_;
};

}  // namespace fovea
