// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/causal.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

// Query q sees keys up to q + shift.
class CausalRule final : public InlinedRule<CausalRule> {
 public:
  explicit CausalRule(int64_t shift) : shift_(shift) {}
  CausalRule(ArrayView query_lengths, ArrayView key_lengths) : ragged_(true), queries_(query_lengths), keys_(key_lengths) {}

  bool allowed(int64_t b, int64_t, int64_t q, int64_t k) const override { return k <= q + shift(b); }
  Cover cover(const Tile& t) const override {
    if (t.k0 > t.q1 - 1 + shift(t.b)) return Cover::kSkip;
    return t.k1 - 1 <= t.q0 + shift(t.b) ? Cover::kFull : Cover::kPartial;
  }
  bool depends_on_batch() const override { return ragged_; }

 private:
  int64_t shift(int64_t b) const { return ragged_ ? keys_.at<int64_t>(b) - queries_.at<int64_t>(b) : shift_; }

  int64_t shift_ = 0;
  bool ragged_ = false;
  ArrayView queries_, keys_;
};

}  // namespace

namespace masks {

Mask causal(Align align) { return Mask::leaf("causal", {align == Align::top_left}); }
Mask causal(const at::Tensor& query_lengths, const at::Tensor& key_lengths) {
  return Mask::leaf("causal", {0}, {query_lengths, key_lengths});
}

}  // namespace masks

void register_masks_causal(MasksRegistry& registry) {
  registry.add("causal",
               {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 && (data.empty() || data.size() == 2),
                                   "masks::causal: wanted one number and no or two tensors of lengths");
                  if (data.empty()) return std::make_shared<CausalRule>(numbers[0] ? 0 : shape.offset());
                  check_lengths("masks::causal: query_lengths", data[0], shape.B, shape.T);
                  check_lengths("masks::causal: key_lengths", data[1], shape.B, shape.S);
                  return std::make_shared<CausalRule>(data[0], data[1]);
                },
                .samples =
                    [](auto& s) {
                      const auto lengths = [&](int64_t most) { return at::arange(1, s.B + 1).clamp(0, most); };
                      return std::vector<Mask>{masks::causal(), masks::causal(masks::Align::top_left),
                                               masks::causal(lengths(s.T), at::full({s.B}, s.S, at::kLong))};
                    }});
}

}  // namespace fovea
