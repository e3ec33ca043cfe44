// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/window_global.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <cstdlib>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class WindowGlobalRule final : public InlinedRule<WindowGlobalRule> {
 public:
  WindowGlobalRule(int64_t reach, ArrayView is_global, int64_t shift) : reach_(reach), global_(is_global), shift_(shift) {}

  bool allowed(int64_t b, int64_t, int64_t q, int64_t k) const override {
    return std::abs(k - (q + shift_)) <= reach_ || global(b, q + shift_) || global(b, k);
  }
  Cover cover(const Tile& t) const override {
    const int64_t nearest = t.k0 - (t.q1 - 1 + shift_), farthest = t.k1 - 1 - (t.q0 + shift_);
    if (-reach_ <= nearest && farthest <= reach_) return Cover::kFull;
    const bool outside = farthest < -reach_ || nearest > reach_;
    const bool touched = any_global(t.b, t.q0 + shift_, t.q1 + shift_) || any_global(t.b, t.k0, t.k1);
    return outside && !touched ? Cover::kSkip : Cover::kPartial;
  }
  bool depends_on_batch() const override { return global_.rank == 2; }

 private:
  bool global(int64_t b, int64_t i) const { return global_.rank == 2 ? global_.at<bool>(b, i) : global_.at<bool>(i); }
  bool any_global(int64_t b, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i)
      if (global(b, i)) return true;
    return false;
  }

  int64_t reach_;
  ArrayView global_;
  int64_t shift_;
};

}  // namespace

namespace masks {

Mask window_global(int64_t reach, const at::Tensor& is_global) {
  FOVEA_CHECK(reach >= 0, "reach is ", reach, ", wanted 0 or more");
  return Mask::leaf("window_global", {reach}, {is_global});
}

}  // namespace masks

void register_masks_window_global(MasksRegistry& registry) {
  registry.add("window_global",
               {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 && numbers[0] >= 0 && data.size() == 1,
                                   "masks::window_global: wanted a reach of 0 or more and one tensor");
                  const ArrayView& g = data[0];
                  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                                   g.type == ViewType::kBool && (g.rank == 1 || (g.rank == 2 && g.size[0] == shape.B)) && g.size[g.rank - 1] == shape.S,
                                   "masks::window_global: is_global: wanted bool [", shape.S, "] or [", shape.B, ", ", shape.S, "]");
                  FOVEA_CHECK_KIND(ErrorKind::kArgument, shape.T <= shape.S, "masks::window_global: ", shape.T, " queries but only ", shape.S, " keys");
                  return std::make_shared<WindowGlobalRule>(numbers[0], g, shape.offset());
                },
                .samples = [](auto& s) {
                  std::vector<Mask> out;
                  if (s.T <= s.S) {
                    const auto global = at::arange(s.S).remainder(7).eq(0);
                    out = {masks::window_global(2, global), masks::window_global(0, global.unsqueeze(0).repeat({s.B, 1}))};
                  }
                  return out;
                }});
}

}  // namespace fovea
