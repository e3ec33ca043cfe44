// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/blocks.h"

#include <ATen/ops/arange.h>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class BlocksRule final : public InlinedRule<BlocksRule> {
 public:
  BlocksRule(int64_t size, ArrayView visible) : size_(size), visible_(visible) {}

  bool allowed(int64_t, int64_t h, int64_t q, int64_t k) const override { return visible(h, q / size_, k / size_); }
  // The derived cover would ask per pair; per block is the same answer.
  Cover cover(const Tile& t) const override {
    bool any = false, all = true;
    for (int64_t q = t.q0 / size_; q <= (t.q1 - 1) / size_; ++q) {
      for (int64_t k = t.k0 / size_; k <= (t.k1 - 1) / size_; ++k) {
        any |= visible(t.h, q, k);
        all &= visible(t.h, q, k);
      }
    }
    return all ? Cover::kFull : any ? Cover::kPartial : Cover::kSkip;
  }
  bool depends_on_head() const override { return visible_.rank == 3; }

 private:
  bool visible(int64_t h, int64_t q, int64_t k) const { return visible_.rank == 3 ? visible_.at<bool>(h, q, k) : visible_.at<bool>(q, k); }

  int64_t size_;
  ArrayView visible_;
};

}  // namespace

namespace masks {

Mask blocks(int64_t size, const at::Tensor& visible) {
  FOVEA_CHECK(size >= 1, "size is ", size, ", wanted 1 or more");
  return Mask::leaf("blocks", {size}, {visible});
}

}  // namespace masks

void register_masks_blocks(MasksRegistry& registry) {
  registry.add("blocks", {.bind = [](auto& numbers, auto& data, auto& shape) -> MaskRulePtr {
                            FOVEA_CHECK_KIND(ErrorKind::kArgument, numbers.size() == 1 && numbers[0] >= 1 && data.size() == 1,
                                             "masks::blocks: wanted a size of 1 or more and one tensor");
                            const auto blocks = [&](int64_t n) { return n / numbers[0] + (n % numbers[0] != 0); };
                            const int64_t rows = blocks(shape.T), columns = blocks(shape.S);
                            const ArrayView& v = data[0];
                            FOVEA_CHECK_KIND(ErrorKind::kArgument,
                                             v.type == ViewType::kBool && (v.rank == 2 || (v.rank == 3 && v.size[0] == shape.H)) &&
                                                 v.size[v.rank - 2] == rows && v.size[v.rank - 1] == columns,
                                             "masks::blocks: visible: wanted bool [", rows, ", ", columns, "] or [", shape.H, ", ", rows, ", ", columns, "]");
                            return std::make_shared<BlocksRule>(numbers[0], v);
                          },
                          .samples = [](auto& s) {
                            const int64_t rows = (s.T + 3) / 4, columns = (s.S + 3) / 4;
                            const auto visible = at::arange(s.H * rows * columns).remainder(3).ne(1).view({s.H, rows, columns});
                            return std::vector<Mask>{masks::blocks(4, visible), masks::blocks(4, visible[0])};
                          }});
}

}  // namespace fovea
