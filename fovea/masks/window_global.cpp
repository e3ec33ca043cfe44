// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/window_global.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class WindowGlobalRule final : public InlinedRule<WindowGlobalRule> {
 public:
  WindowGlobalRule(int64_t reach, ArrayView is_global, bool global_rows, int64_t shift)
      : global_(is_global), global_rows_(global_rows), shift_(shift) {
    const int64_t batches = global_.rank == 2 ? global_.size[0] : 1, keys = global_.size[global_.rank - 1];
    reach_ = std::min(reach, keys);  // no key is farther, and q + reach_ does not overflow
    for (int64_t b = 0; b < batches; ++b) {
      before_.emplace_back(1, 0);
      for (int64_t i = 0; i < keys; ++i) before_.back().push_back(before_.back().back() + int32_t{global(b, i)});
    }
  }

  bool allowed(int64_t b, int64_t, int64_t q, int64_t k) const override {
    if (global(b, q + shift_)) return global_rows_;
    return std::abs(k - (q + shift_)) <= reach_ || global(b, k);
  }
  // In constant time, so that a long text's plan costs little beside its attention.
  Cover cover(const Tile& t) const override {
    const int64_t q0 = t.q0 + shift_, q1 = t.q1 + shift_;
    const int64_t nearest = t.k0 - (q1 - 1), farthest = t.k1 - 1 - q0, rows = count_global(t.b, q0, q1);
    if (rows == q1 - q0) return global_rows_ ? Cover::kFull : Cover::kSkip;
    if (-reach_ <= nearest && farthest <= reach_) return rows == 0 || global_rows_ ? Cover::kFull : Cover::kPartial;
    const bool outside = farthest < -reach_ || nearest > reach_;
    const bool touched = (rows > 0 && global_rows_) || count_global(t.b, t.k0, t.k1) > 0;
    return outside && !touched ? Cover::kSkip : Cover::kPartial;
  }
  // Row by row: the window is a run of keys, global ones are few.
  void fill(const Tile& t, uint8_t* visible, int64_t stride) const override {
    const bool any_global = count_global(t.b, t.k0, t.k1) > 0;
    for (int64_t q = t.q0 + shift_; q < t.q1 + shift_; ++q, visible += stride) {
      const auto at = [&](int64_t key) { return visible + std::clamp(key, t.k0, t.k1) - t.k0; };
      const bool row = global(t.b, q);
      std::fill(at(t.k0), at(t.k1), uint8_t{row && global_rows_});
      if (row) continue;
      std::fill(at(q - reach_), at(q + reach_ + 1), uint8_t{1});
      for (int64_t k = t.k0; any_global && k < t.k1; ++k) *at(k) |= uint8_t{global(t.b, k)};
    }
  }
  bool depends_on_batch() const override { return global_.rank == 2; }

 private:
  bool global(int64_t b, int64_t i) const { return global_.rank == 2 ? global_.at<bool>(b, i) : global_.at<bool>(i); }
  int64_t count_global(int64_t b, int64_t begin, int64_t end) const {
    const auto& before = before_[global_.rank == 2 ? size_t(b) : 0];
    return before[size_t(end)] - before[size_t(begin)];
  }

  int64_t reach_;
  ArrayView global_;
  bool global_rows_;
  int64_t shift_;
  std::vector<std::vector<int32_t>> before_;  // [B][i]: global tokens among the first i
};

}  // namespace

namespace masks {

Mask window_global(int64_t reach, const at::Tensor& is_global, bool global_rows) {
  FOVEA_CHECK(reach >= 0, "reach is ", reach, ", wanted 0 or more");
  return Mask::leaf("window_global", {reach, global_rows}, {is_global});
}

}  // namespace masks

void register_masks_window_global(MasksRegistry& registry) {
  registry.add("window_global",
               {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                                   (numbers.size() == 1 || numbers.size() == 2) && numbers[0] >= 0 && data.size() == 1,
                                   "masks::window_global: wanted a reach of 0 or more, whether global rows see, and one tensor");
                  const ArrayView& g = data[0];
                  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                                   g.type == ViewType::kBool && (g.rank == 1 || (g.rank == 2 && g.size[0] == shape.B)) && g.size[g.rank - 1] == shape.S,
                                   "masks::window_global: is_global: wanted bool [", shape.S, "] or [", shape.B, ", ", shape.S, "]");
                  FOVEA_CHECK_KIND(ErrorKind::kArgument, shape.T <= shape.S, "masks::window_global: ", shape.T, " queries but only ", shape.S, " keys");
                  return std::make_shared<WindowGlobalRule>(numbers[0], g, numbers.size() == 1 || numbers[1] != 0, shape.offset());
                },
                .samples = [](auto& s) {
                  std::vector<Mask> out;
                  if (s.T <= s.S) {
                    const auto global = at::arange(s.S).remainder(7).eq(0);
                    out = {masks::window_global(2, global), masks::window_global(0, global.unsqueeze(0).repeat({s.B, 1})),
                           masks::window_global(2, global, false),
                           masks::window_global(std::numeric_limits<int64_t>::max(), global, false)};
                  }
                  return out;
                }});
}

}  // namespace fovea
