// Forward-mode derivatives for user score rules: a number together with its partial derivatives by the few parameters
// it touched. A rule written as a generic lambda gets its backward pass from running on Dual instead of float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "fovea/base/check.h"

namespace fovea {

template <class T>
struct Dual {
  static constexpr int kMaxParts = 8;
  struct Part {
    int parameter;   // which learned tensor; kScore is the score itself
    int64_t offset;  // which element of it
    T partial;
  };
  static constexpr int kScore = -1;

  T value{};
  int count = 0;
  Part parts[kMaxParts];

  Dual() = default;
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Dual(Number constant) : value(T(constant)) {}  // NOLINT: constants mix freely with parameters
  Dual(T v, int parameter, int64_t offset) : value(v), count(1) { parts[0] = {parameter, offset, T(1)}; }

  // d(result) = slope · d(this)
  Dual chain(T result, T slope) const {
    Dual out(result);
    for (int i = 0; i < count; ++i) out.add(parts[i], slope);
    return out;
  }
  void add(const Part& part, T slope) {
    for (int i = 0; i < count; ++i) {
      if (parts[i].parameter == part.parameter && parts[i].offset == part.offset) {
        parts[i].partial += slope * part.partial;
        return;
      }
    }
    FOVEA_CHECK_KIND(ErrorKind::kArgument, count < kMaxParts, "scores: a rule may use at most ", kMaxParts,
                     " learned numbers for one (b, h, q, k)");
    parts[count++] = {part.parameter, part.offset, slope * part.partial};
  }

  friend Dual join(const Dual& a, const Dual& b, T result, T slope_a, T slope_b) {
    Dual out = a.chain(result, slope_a);
    for (int i = 0; i < b.count; ++i) out.add(b.parts[i], slope_b);
    return out;
  }
  friend Dual operator-(const Dual& a) { return a.chain(-a.value, T(-1)); }
  friend Dual operator+(const Dual& a, const Dual& b) { return join(a, b, a.value + b.value, T(1), T(1)); }
  friend Dual operator-(const Dual& a, const Dual& b) { return join(a, b, a.value - b.value, T(1), T(-1)); }
  friend Dual operator*(const Dual& a, const Dual& b) { return join(a, b, a.value * b.value, b.value, a.value); }
  friend Dual operator/(const Dual& a, const Dual& b) {
    return join(a, b, a.value / b.value, T(1) / b.value, -a.value / (b.value * b.value));
  }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }

  friend Dual exp(const Dual& a) {
    const T e = std::exp(a.value);
    return a.chain(e, e);
  }
  friend Dual log(const Dual& a) { return a.chain(std::log(a.value), T(1) / a.value); }
  friend Dual sqrt(const Dual& a) {
    const T r = std::sqrt(a.value);
    return a.chain(r, T(0.5) / r);
  }
  friend Dual tanh(const Dual& a) {
    const T t = std::tanh(a.value);
    return a.chain(t, T(1) - t * t);
  }
  friend Dual sin(const Dual& a) { return a.chain(std::sin(a.value), std::cos(a.value)); }
  friend Dual cos(const Dual& a) { return a.chain(std::cos(a.value), -std::sin(a.value)); }
  friend Dual abs(const Dual& a) { return a.chain(std::abs(a.value), a.value < T(0) ? T(-1) : T(1)); }
};

}  // namespace fovea
