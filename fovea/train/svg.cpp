// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

namespace fovea {
namespace {

// The drawing in SVG units, and the part inside the axes.
constexpr double kWidth = 900, kHeight = 480, kLeft = 70, kRight = 20, kTop = 46, kBottom = 56;
constexpr size_t kBuckets = 300;  // points of a thinned curve

struct Range {
  double low = INFINITY, high = -INFINITY;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// What is drawn of a curve: a line, and for a dense one the range of the points behind each of its places.
struct Drawn {
  const Curve* curve;
  std::vector<CurvePoint> line, lower, upper;
};

Drawn thin(const Curve& curve) {
  Drawn out{&curve, {}, {}, {}};
  std::vector<CurvePoint> points;
  for (const CurvePoint& point : curve.points)
    if (std::isfinite(point.x) && std::isfinite(point.y)) points.push_back(point);
  if (!curve.dense || points.size() < 2) {
    out.line = points;
    return out;
  }
  const size_t buckets = std::min(kBuckets, (points.size() + 3) / 4);
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = points.size() * b / buckets, end = points.size() * (b + 1) / buckets;
    CurvePoint mean{0, 0};
    Range range;
    for (size_t i = begin; i < end; ++i) {
      mean.x += points[i].x / double(end - begin);
      mean.y += points[i].y / double(end - begin);
      range.include(points[i].y);
    }
    out.line.push_back(mean);
    out.lower.push_back({mean.x, range.low});
    out.upper.push_back({mean.x, range.high});
  }
  return out;
}

// 1, 2 or 5 times a power of ten, for about `count` ticks.
double tick_step(const Range& range, int count) {
  const double raw = (range.high - range.low) / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

std::string number(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.10g", std::abs(value) < 1e-12 ? 0 : value);
  return out;
}

std::string coordinate(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", value);
  return out;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

struct Axes {
  Range x, y;
  double to_x(double value) const { return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight); }
  double to_y(double value) const {
    return kHeight - kBottom - (value - y.low) / (y.high - y.low) * (kHeight - kTop - kBottom);
  }
  std::string at(const CurvePoint& point) const { return coordinate(to_x(point.x)) + "," + coordinate(to_y(point.y)); }
};

Axes fit(const std::vector<Drawn>& drawn) {
  Axes out;
  for (const Drawn& one : drawn)
    for (const CurvePoint& point : one.line) out.x.include(point.x);
  const double after = out.x.low + 0.02 * (out.x.high - out.x.low);
  for (const Drawn& one : drawn)
    for (const CurvePoint& point : one.line)
      if (point.x >= after) out.y.include(point.y);
  const auto widen = [](Range& range, double part) {
    const double margin =
        range.high > range.low ? part * (range.high - range.low) : std::max(0.5, 0.1 * std::abs(range.low));
    range.low -= margin;
    range.high += margin;
  };
  out.x.low = std::min(out.x.low, 0.0);
  widen(out.x, 0.01);
  out.x.low = std::max(out.x.low, 0.0);
  widen(out.y, 0.05);
  return out;
}

void draw_axes(std::ostream& svg, const Axes& axes, const ChartText& text) {
  const std::string left = coordinate(kLeft), right = coordinate(kWidth - kRight),
                    bottom = coordinate(kHeight - kBottom);
  const double x_step = tick_step(axes.x, 10), y_step = tick_step(axes.y, 7);
  svg << "<g stroke=\"#e4e4e4\">\n";
  for (double y = std::ceil(axes.y.low / y_step) * y_step; y <= axes.y.high; y += y_step)
    svg << "<line x1=\"" << left << "\" x2=\"" << right << "\" y1=\"" << coordinate(axes.to_y(y)) << "\" y2=\""
        << coordinate(axes.to_y(y)) << "\"/>\n";
  svg << "</g>\n<g stroke=\"#444\">\n<line x1=\"" << left << "\" x2=\"" << right << "\" y1=\"" << bottom << "\" y2=\""
      << bottom << "\"/>\n<line x1=\"" << left << "\" x2=\"" << left << "\" y1=\"" << coordinate(kTop) << "\" y2=\""
      << bottom << "\"/>\n";
  for (double x = std::ceil(axes.x.low / x_step) * x_step; x <= axes.x.high * 1.0001; x += x_step)
    svg << "<line x1=\"" << coordinate(axes.to_x(x)) << "\" x2=\"" << coordinate(axes.to_x(x)) << "\" y1=\"" << bottom
        << "\" y2=\"" << coordinate(kHeight - kBottom + 5) << "\"/>\n";
  svg << "</g>\n<g fill=\"#333\" font-size=\"13\" text-anchor=\"end\">\n";
  for (double y = std::ceil(axes.y.low / y_step) * y_step; y <= axes.y.high; y += y_step)
    svg << "<text x=\"" << coordinate(kLeft - 8) << "\" y=\"" << coordinate(axes.to_y(y) + 4) << "\">" << number(y)
        << "</text>\n";
  svg << "</g>\n<g fill=\"#333\" font-size=\"13\" text-anchor=\"middle\">\n";
  for (double x = std::ceil(axes.x.low / x_step) * x_step; x <= axes.x.high * 1.0001; x += x_step)
    svg << "<text x=\"" << coordinate(axes.to_x(x)) << "\" y=\"" << coordinate(kHeight - kBottom + 20) << "\">"
        << number(x) << "</text>\n";
  svg << "<text x=\"" << coordinate((kLeft + kWidth - kRight) / 2) << "\" y=\"" << coordinate(kHeight - 12) << "\">"
      << escape(text.x_label) << "</text>\n<text transform=\"translate(18,"
      << coordinate((kTop + kHeight - kBottom) / 2) << ") rotate(-90)\">" << escape(text.y_label) << "</text>\n</g>\n";
}

void draw_curve(std::ostream& svg, const Axes& axes, const Drawn& drawn) {
  const std::string& color = drawn.curve->color;
  if (!drawn.upper.empty()) {
    svg << "<polygon fill=\"" << color << "\" fill-opacity=\"0.18\" points=\"";
    for (const CurvePoint& point : drawn.upper) svg << axes.at(point) << ' ';
    for (auto point = drawn.lower.rbegin(); point != drawn.lower.rend(); ++point) svg << axes.at(*point) << ' ';
    svg << "\"/>\n";
  }
  svg << "<polyline fill=\"none\" stroke=\"" << color << "\" stroke-width=\"2\" stroke-linejoin=\"round\" points=\"";
  for (const CurvePoint& point : drawn.line) svg << axes.at(point) << ' ';
  svg << "\"/>\n";
  if (drawn.curve->dense || drawn.line.size() > 60) return;
  for (const CurvePoint& point : drawn.line)
    svg << "<circle r=\"3\" fill=\"" << color << "\" cx=\"" << coordinate(axes.to_x(point.x)) << "\" cy=\""
        << coordinate(axes.to_y(point.y)) << "\"><title>" << number(point.x) << ": " << number(point.y)
        << "</title></circle>\n";
}

void draw_legend(std::ostream& svg, const std::vector<Drawn>& drawn) {
  double y = kTop + 16;
  for (const Drawn& one : drawn) {
    svg << "<line x1=\"" << coordinate(kWidth - kRight - 190) << "\" x2=\"" << coordinate(kWidth - kRight - 166)
        << "\" y1=\"" << coordinate(y - 4) << "\" y2=\"" << coordinate(y - 4) << "\" stroke=\"" << one.curve->color
        << "\" stroke-width=\"3\"/>\n<text x=\"" << coordinate(kWidth - kRight - 158) << "\" y=\"" << coordinate(y)
        << "\" font-size=\"13\" fill=\"#333\">" << escape(one.curve->name) << "</text>\n";
    y += 20;
  }
}

}  // namespace

std::string draw_svg(const std::vector<Curve>& curves, const ChartText& text) {
  std::vector<Drawn> drawn;
  for (const Curve& curve : curves)
    if (Drawn one = thin(curve); !one.line.empty()) drawn.push_back(std::move(one));
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' ' << kHeight
      << "\" font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\""
      << coordinate(kLeft) << "\" y=\"28\" font-size=\"17\" fill=\"#111\">" << escape(text.title) << "</text>\n";
  if (drawn.empty()) {
    svg << "<text x=\"50%\" y=\"50%\" text-anchor=\"middle\" fill=\"#333\">no points yet</text>\n</svg>\n";
    return svg.str();
  }
  const Axes axes = fit(drawn);
  draw_axes(svg, axes, text);
  svg << "<clipPath id=\"inside\"><rect x=\"" << coordinate(kLeft) << "\" y=\"" << coordinate(kTop) << "\" width=\""
      << coordinate(kWidth - kLeft - kRight) << "\" height=\"" << coordinate(kHeight - kTop - kBottom)
      << "\"/></clipPath>\n<g clip-path=\"url(#inside)\">\n";
  for (const Drawn& one : drawn) draw_curve(svg, axes, one);
  svg << "</g>\n";
  draw_legend(svg, drawn);
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace fovea
