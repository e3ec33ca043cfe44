// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/augmentation.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/check.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

constexpr uint64_t kFlipDraws = 0, kShiftDraws = 1, kEraseDraws = 2;

// Uniform in [0, 1).
double random_part(uint64_t seed, uint64_t stream, uint64_t index) {
  return double(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

at::Tensor shifted(const at::Tensor& image, int64_t down, int64_t right) {
  const int64_t Y = image.size(1), X = image.size(2);
  at::Tensor out = at::zeros_like(image);
  const int64_t rows = Y - std::abs(down), columns = X - std::abs(right);
  if (rows <= 0 || columns <= 0) return out;
  const auto part = [&](const at::Tensor& of, int64_t y, int64_t x) {
    return of.narrow(1, std::max<int64_t>(y, 0), rows).narrow(2, std::max<int64_t>(x, 0), columns);
  };
  part(out, down, right).copy_(part(image, -down, -right));
  return out;
}

// 2 to 33 % of the picture, sides of a ratio from 0.3 to 3.3, as the paper has them.
void erase_rectangle(at::Tensor& image, uint64_t seed) {
  const int64_t Y = image.size(1), X = image.size(2);
  const double area = double(Y * X) * (0.02 + 0.31 * random_part(seed, kEraseDraws, 1));
  const double ratio = std::exp((2 * random_part(seed, kEraseDraws, 2) - 1) * std::log(10.0 / 3));
  const int64_t rows = std::clamp<int64_t>(std::lround(std::sqrt(area * ratio)), 1, Y);
  const int64_t columns = std::clamp<int64_t>(std::lround(std::sqrt(area / ratio)), 1, X);
  image.narrow(1, random_below(Y - rows + 1, seed, kEraseDraws, 3), rows)
      .narrow(2, random_below(X - columns + 1, seed, kEraseDraws, 4), columns)
      .zero_();
}

}  // namespace

void check_augmentation(const AugmentationOptions& options) {
  for (const auto& [name, part] : {std::pair{"flip", options.flip}, {"erase", options.erase}})
    FOVEA_CHECK_CONFIG(part >= 0 && part <= 1, name, " is ", part, ", must be between 0 and 1");
  FOVEA_CHECK_CONFIG(options.shift >= 0, "shift is ", options.shift, ", must be at least 0");
}

at::Tensor augmented(const at::Tensor& image, const AugmentationOptions& options, uint64_t seed) {
  at::Tensor out = image;
  if (random_part(seed, kFlipDraws, 0) < options.flip) out = out.flip({2});
  if (options.shift > 0) {
    const int64_t places = 2 * options.shift + 1;
    out = shifted(out, random_below(places, seed, kShiftDraws, 0) - options.shift,
                  random_below(places, seed, kShiftDraws, 1) - options.shift);
  }
  if (random_part(seed, kEraseDraws, 0) < options.erase) {
    out = out.clone();
    erase_rectangle(out, seed);
  }
  return out;
}

}  // namespace fovea
