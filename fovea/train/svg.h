// A chart of curves over the training step, as a small SVG file for any browser or image viewer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace fovea {

struct CurvePoint {
  double x, y;
};

struct Curve {
  std::string name;                // in the legend
  std::string color;               // "#1f77b4"
  std::vector<CurvePoint> points;  // x rising; points that are not finite are left out
  bool dense = false;              // many noisy points: thinned to their averages over their range as a pale band
};

struct ChartText {
  std::string title, x_label, y_label;
};

// Curves without points are left out; a chart without curves says so. The first 2 % of the x axis do not widen the y
// axis (losses begin far above the rest): what lies outside is clipped.
std::string draw_svg(const std::vector<Curve>& curves, const ChartText& text);

}  // namespace fovea
