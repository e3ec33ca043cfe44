// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/rope_scaling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/registry.h"

namespace fovea {
namespace {

using at::Tensor;

constexpr double kTurn = 2 * std::numbers::pi;

void check_factor(const RopeScaling& s) {
  FOVEA_CHECK_CONFIG(s.factor >= 1 && std::isfinite(s.factor), "rope scaling \"", s.type, "\": factor is ", s.factor,
                     ", wanted a number from 1 on");
}

void check_original(const RopeScaling& s) {
  check_factor(s);
  FOVEA_CHECK_CONFIG(s.original_positions > 0, "rope scaling \"", s.type, "\": original_positions is ",
                     s.original_positions, ", wanted at least 1");
}

Tensor linear_frequencies(int64_t width, double base, const RopeScaling& s, int64_t) {
  check_factor(s);
  return rope_frequencies(width, base) / s.factor;
}

Tensor dynamic_frequencies(int64_t width, double base, const RopeScaling& s, int64_t length) {
  check_original(s);
  FOVEA_CHECK_CONFIG(width > 2, "rope scaling \"dynamic\": a single pair turns, wanted at least two");
  if (length <= s.original_positions) return rope_frequencies(width, base);
  const double stretch = s.factor * double(length) / double(s.original_positions) - (s.factor - 1);
  return rope_frequencies(width, base * std::pow(stretch, double(width) / double(width - 2)));
}

// The pair, not rounded, that turns `turns` times within the original length.
double pair_that_turns(double turns, int64_t width, double base, const RopeScaling& s) {
  return double(width) * std::log(double(s.original_positions) / (turns * kTurn)) / (2 * std::log(base));
}

Tensor yarn_frequencies(int64_t width, double base, const RopeScaling& s, int64_t) {
  check_original(s);
  FOVEA_CHECK_CONFIG(s.beta_fast > 0 && s.beta_slow > 0 && s.beta_fast >= s.beta_slow,
                     "rope scaling \"yarn\": beta_fast is ", s.beta_fast, " and beta_slow ", s.beta_slow,
                     ", wanted beta_fast >= beta_slow > 0");
  FOVEA_CHECK_CONFIG(base != 1, "rope scaling \"yarn\": base is 1; all pairs turn alike");
  double low = pair_that_turns(s.beta_fast, width, base, s), high = pair_that_turns(s.beta_slow, width, base, s);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, double(width - 1));
  if (low == high) high += 0.001;
  const Tensor divided = ((at::arange(width / 2, at::kDouble) - low) / (high - low)).clamp(0, 1);  // share, [R/2]
  const Tensor kept = rope_frequencies(width, base);
  return kept * (1 - divided) + kept / s.factor * divided;
}

Tensor llama3_frequencies(int64_t width, double base, const RopeScaling& s, int64_t) {
  check_original(s);
  FOVEA_CHECK_CONFIG(s.high_frequency > s.low_frequency && s.low_frequency > 0,
                     "rope scaling \"llama3\": low_frequency is ", s.low_frequency, " and high_frequency ",
                     s.high_frequency, ", wanted high_frequency > low_frequency > 0");
  const Tensor kept = rope_frequencies(width, base);
  const Tensor turns = kept * (double(s.original_positions) / kTurn);  // within the original length
  const Tensor share = ((turns - s.low_frequency) / (s.high_frequency - s.low_frequency)).clamp(0, 1);
  return kept * share + kept / s.factor * (1 - share);
}

using ScaledFrequencies = Tensor (*)(int64_t width, double base, const RopeScaling& scaling, int64_t length);

const Registry<ScaledFrequencies>& rope_scalings() {
  static const Registry<ScaledFrequencies> table = [] {
    Registry<ScaledFrequencies> t("rope scaling");
    t.add("none",
          [](int64_t width, double base, const RopeScaling&, int64_t) { return rope_frequencies(width, base); });
    t.add("linear", linear_frequencies);
    t.add("dynamic", dynamic_frequencies);
    t.add("yarn", yarn_frequencies);
    t.add("llama3", llama3_frequencies);
    return t;
  }();
  return table;
}

}  // namespace

void RopeScaling::visit(FieldVisitor& v) {
  v.field("type", type, "\"none\", \"linear\", \"dynamic\", \"yarn\" or \"llama3\"");
  v.field("factor", factor, "how many times longer than the original length");
  v.field("original_positions", original_positions, "length the model was trained on");
  v.field("low_frequency", low_frequency, "llama3: turns below which angles are divided");
  v.field("high_frequency", high_frequency, "llama3: turns above which angles are kept");
  v.field("beta_fast", beta_fast, "yarn: turns above which angles are kept");
  v.field("beta_slow", beta_slow, "yarn: turns below which angles are divided");
  v.field("attention_factor", attention_factor, "yarn: of cosine and sine; 0: from the factor");
  v.field("mscale", mscale, "yarn: numerator of that; 0: as the paper has it");
  v.field("mscale_all", mscale_all, "yarn: denominator of that");
  v.field("truncate", truncate, "yarn: the blend begins and ends at whole pairs");
}

Tensor rope_frequencies(int64_t width, double base) {
  FOVEA_CHECK_CONFIG(base > 0 && std::isfinite(base), "positions: base is ", base, ", wanted a number above 0");
  return at::pow(base, at::arange(0, width, 2, at::kDouble) / double(-width));
}

Tensor rope_frequencies(int64_t width, double base, const RopeScaling& scaling, int64_t length) {
  return rope_scalings().at(scaling.type)(width, base, scaling, length);
}

double rope_amplitude(const RopeScaling& s) {
  if (s.type != "yarn") return 1;
  for (const auto& [name, value] :
       {std::pair{"attention_factor", s.attention_factor}, {"mscale", s.mscale}, {"mscale_all", s.mscale_all}})
    FOVEA_CHECK_CONFIG(value >= 0 && std::isfinite(value), "rope scaling \"yarn\": ", name, " is ", value,
                       ", wanted a number from 0 on");
  if (s.attention_factor > 0) return s.attention_factor;
  const auto growth = [&](double slope) { return s.factor <= 1 ? 1 : 0.1 * slope * std::log(s.factor) + 1; };
  return s.mscale > 0 && s.mscale_all > 0 ? growth(s.mscale) / growth(s.mscale_all) : growth(1);
}

}  // namespace fovea
