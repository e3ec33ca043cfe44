// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/sliding_window.h"

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class WindowRule final : public InlinedRule<WindowRule> {
 public:
  WindowRule(int64_t left, int64_t right, int64_t shift) : left_(left), right_(right), shift_(shift) {}

  bool allowed(int64_t, int64_t, int64_t q, int64_t k) const override {
    const int64_t distance = k - (q + shift_);
    return -left_ <= distance && distance <= right_;
  }
  Cover cover(const Tile& t) const override {
    const int64_t nearest = t.k0 - (t.q1 - 1 + shift_), farthest = t.k1 - 1 - (t.q0 + shift_);  // smallest and largest distance
    if (farthest < -left_ || nearest > right_) return Cover::kSkip;
    return -left_ <= nearest && farthest <= right_ ? Cover::kFull : Cover::kPartial;
  }

 private:
  int64_t left_, right_, shift_;
};

}  // namespace

namespace masks {

Mask sliding_window(int64_t window) {
  FOVEA_CHECK(window >= 1, "window is ", window, ", wanted 1 or more");
  return sliding_window(window - 1, 0);
}
Mask sliding_window(int64_t left, int64_t right) {
  FOVEA_CHECK(left >= 0 && right >= 0, "left is ", left, " and right is ", right, ", wanted 0 or more");
  return Mask::leaf("sliding_window", {left, right});
}

}  // namespace masks

void register_masks_sliding_window(MasksRegistry& registry) {
  registry.add("sliding_window", {.bind = [](auto& numbers, auto&, auto& shape) -> MaskRulePtr {
                                    FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 2 && numbers[0] >= 0 && numbers[1] >= 0,
                                                     "masks::sliding_window: wanted left and right, both 0 or more");
                                    return std::make_shared<WindowRule>(numbers[0], numbers[1], shape.offset());
                                  },
                                  .samples = [](auto&) {
                                    return std::vector<Mask>{masks::sliding_window(3), masks::sliding_window(1), masks::sliding_window(2, 2)};
                                  }});
}

}  // namespace fovea
