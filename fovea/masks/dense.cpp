// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/dense.h"

#include <ATen/ops/arange.h>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class DenseRule final : public InlinedRule<DenseRule> {
 public:
  DenseRule(ArrayView values, bool hides) : values_(values), hides_(hides) {}
  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override { return values_.at<bool>(b, h, q, k) != hides_; }
  bool depends_on_batch() const override { return values_.stride[0] != 0; }
  bool depends_on_head() const override { return values_.stride[1] != 0; }

 private:
  ArrayView values_;
  bool hides_;
};

void check_boolean(const char* what, const at::Tensor& mask) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, mask.defined() && mask.scalar_type() == at::kBool, what, ": wanted a boolean tensor, got ",
                   mask.defined() ? toString(mask.scalar_type()) : "nothing", "; numbers to add to the scores go through scores::dense");
}

}  // namespace

namespace masks {

Mask allow(const at::Tensor& visible) {
  check_boolean("masks::allow", visible);
  return Mask::leaf("dense", {0}, {visible});
}
Mask block(const at::Tensor& hidden) {
  check_boolean("masks::block", hidden);
  return Mask::leaf("dense", {1}, {hidden});
}

}  // namespace masks

void register_masks_dense(MasksRegistry& registry) {
  registry.add("dense", {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                           FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 && data.size() == 1 && data[0].type == ViewType::kBool,
                                            "masks::dense: wanted one boolean tensor");
                           return std::make_shared<DenseRule>(data[0].as_scores(numbers[0] ? "masks::block" : "masks::allow", shape), numbers[0] != 0);
                         },
                         .samples = [](auto& s) {
                           const auto full = at::arange(s.B * s.H * s.T * s.S).remainder(5).ne(2).view({s.B, s.H, s.T, s.S});
                           const auto keys = at::arange(s.S).remainder(3).eq(1);
                           return std::vector<Mask>{masks::allow(full), masks::block(full), masks::block(keys), masks::allow(full.select(1, 0).unsqueeze(1))};
                         }});
}

}  // namespace fovea
