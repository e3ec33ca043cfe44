// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/prefix.h"

#include <ATen/ops/arange.h>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class PrefixRule final : public InlinedRule<PrefixRule> {
 public:
  explicit PrefixRule(int64_t length) : length_(length) {}
  explicit PrefixRule(ArrayView lengths) : ragged_(true), lengths_(lengths) {}
  bool allowed(int64_t b, int64_t, int64_t, int64_t k) const override { return k < length(b); }
  Cover cover(const Tile& t) const override {
    if (t.k0 >= length(t.b)) return Cover::kSkip;
    return t.k1 <= length(t.b) ? Cover::kFull : Cover::kPartial;
  }
  bool depends_on_batch() const override { return ragged_; }

 private:
  int64_t length(int64_t b) const { return ragged_ ? lengths_.at<int64_t>(b) : length_; }
  int64_t length_ = 0;
  bool ragged_ = false;
  ArrayView lengths_;
};

}  // namespace

namespace masks {

Mask prefix(int64_t length) { return Mask::leaf("prefix", {length}); }
Mask prefix(const at::Tensor& lengths) { return Mask::leaf("prefix", {}, {lengths}); }

}  // namespace masks

void register_masks_prefix(MasksRegistry& registry) {
  registry.add("prefix", {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                            FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() + data.size() == 1,
                                             "masks::prefix: wanted one length or one tensor of lengths");
                            if (!data.empty()) {
                              check_lengths("masks::prefix: lengths", data[0], shape.B, shape.S);
                              return std::make_shared<PrefixRule>(data[0]);
                            }
                            FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers[0] >= 0, "masks::prefix: length is ", numbers[0], ", wanted 0 or more");
                            return std::make_shared<PrefixRule>(numbers[0]);
                          },
                          .samples = [](auto& s) {
                            return std::vector<Mask>{masks::prefix(2) | Mask::leaf("causal", {0}),
                                                     masks::prefix(at::arange(s.B).clamp(0, s.S))};
                          }});
}

}  // namespace fovea
