// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/curve.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace fovea {
namespace {

std::string with_last(const std::string& name, const std::vector<CurvePoint>& points) {
  if (points.empty()) return name;
  char value[32];
  std::snprintf(value, sizeof value, " (%.4f)", points.back().y);
  return name + value;
}

}  // namespace

void LossCurve::add(const nlohmann::json& line) {
  if (!line.contains("step") || !line.contains("loss") || !line["loss"].is_number()) return;
  const bool validation = line.value("event", std::string()) == "validation";
  (validation ? validation_ : training_).push_back({line["step"].get<double>(), line["loss"].get<double>()});
}

std::string LossCurve::svg() const {
  return draw_svg({{"training", "#4c78a8", training_, /*dense=*/true},
                   {with_last("validation", validation_), "#e4572e", validation_, /*dense=*/false}},
                  {title_, "step", "loss (nats)"});
}

}  // namespace fovea
