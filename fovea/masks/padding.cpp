// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/padding.h"

#include <ATen/ops/arange.h>
#include <ATen/TensorOperators.h>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

enum Form { kRight = 0, kBoth = 1, kLeft = 2 };

class PaddingRule final : public InlinedRule<PaddingRule> {
 public:
  PaddingRule(Form form, const std::vector<ArrayView>& data, int64_t keys) : form_(form), data_(data), keys_(keys) {}

  bool allowed(int64_t b, int64_t, int64_t, int64_t k) const override { return begin(b) <= k && k < end(b); }
  Cover cover(const Tile& t) const override {
    if (t.k1 <= begin(t.b) || t.k0 >= end(t.b)) return Cover::kSkip;
    return begin(t.b) <= t.k0 && t.k1 <= end(t.b) ? Cover::kFull : Cover::kPartial;
  }
  bool depends_on_batch() const override { return true; }

 private:
  int64_t begin(int64_t b) const { return form_ == kRight ? 0 : data_[0].at<int64_t>(b); }
  int64_t end(int64_t b) const {
    switch (form_) {
      case kRight: return data_[0].at<int64_t>(b);
      case kBoth: return begin(b) + data_[1].at<int64_t>(b);
      default: return keys_;
    }
  }

  Form form_;
  std::vector<ArrayView> data_;
  int64_t keys_;
};

MaskRulePtr bind(const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data, const AttentionShape& shape) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 && numbers[0] >= kRight && numbers[0] <= kLeft &&
                                             data.size() == (numbers[0] == kBoth ? 2u : 1u),
                   "masks::padding: wanted a form and its tensors");
  const Form form = Form(numbers[0]);
  check_lengths(form == kRight ? "masks::padding: lengths" : "masks::padding: start", data[0], shape.B, shape.S);
  if (form == kBoth) {
    check_lengths("masks::padding: lengths", data[1], shape.B, shape.S);
    for (int64_t b = 0; b < shape.B; ++b) {
      const int64_t end = data[0].at<int64_t>(b) + data[1].at<int64_t>(b);
      FOVEA_CHECK_KIND(ErrorKind::kArgument, end <= shape.S, "masks::padding: start + length of sequence ", b, " is ", end, ", wanted at most S = ",
                       shape.S);
    }
  }
  return std::make_shared<PaddingRule>(form, data, shape.S);
}

}  // namespace

namespace masks {

Mask padding(const at::Tensor& lengths) { return Mask::leaf("padding", {kRight}, {lengths}); }
Mask padding(const at::Tensor& start, const at::Tensor& lengths) { return Mask::leaf("padding", {kBoth}, {start, lengths}); }
Mask padding_left(const at::Tensor& start) { return Mask::leaf("padding", {kLeft}, {start}); }

}  // namespace masks

void register_masks_padding(MasksRegistry& registry) {
  registry.add("padding", {.bind = bind, .samples = [](auto& s) {
                             const auto start = at::arange(s.B).clamp(0, s.S);
                             const auto lengths = (s.S - start).clamp(0, 3);
                             return std::vector<Mask>{masks::padding(lengths), masks::padding(start, lengths), masks::padding_left(start)};
                           }});
}

}  // namespace fovea
