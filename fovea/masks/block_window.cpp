// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/block_window.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "fovea/masks/block_layout.h"
#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class BlockWindowRule final : public InlinedRule<BlockWindowRule> {
 public:
  BlockWindowRule(BlockLayout layout, int64_t shift) : layout_(std::move(layout)), shift_(shift) {}

  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override {
    const int64_t begin = layout_.begin(b), end = layout_.end(b), place = q + shift_;
    if (place < begin || place >= end || k < begin || k >= end) return false;
    return layout_.times(b, h, (place - begin) / layout_.size(), (k - begin) / layout_.size()) > 0;
  }
  // Most tiles of a long text are far from everything, which shows at once; the others are looked at block by block.
  Cover cover(const Tile& t) const override {
    const int64_t begin = layout_.begin(t.b), end = layout_.end(t.b), size = layout_.size();
    const int64_t q0 = std::max(t.q0 + shift_, begin) - begin, q1 = std::min(t.q1 + shift_, end) - begin;
    const int64_t k0 = std::max(t.k0, begin) - begin, k1 = std::min(t.k1, end) - begin;
    if (q0 >= q1 || k0 >= k1) return Cover::kSkip;
    const Cover inside = q1 - q0 == t.q1 - t.q0 && k1 - k0 == t.k1 - t.k0 ? Cover::kFull : Cover::kPartial;
    if (!layout_.is_sparse(t.b)) return inside;
    const int64_t i0 = q0 / size, i1 = (q1 - 1) / size, j0 = k0 / size, j1 = (k1 - 1) / size;
    if (is_far(t, i0, i1, j0, j1)) return Cover::kSkip;
    bool any = false, all = true;
    for (int64_t i = i0; i <= i1; ++i)
      for (int64_t j = j0; j <= j1; ++j) {
        const bool visible = layout_.times(t.b, t.h, i, j) > 0;
        any |= visible;
        all &= visible;
      }
    return all ? inside : any ? Cover::kPartial : Cover::kSkip;
  }
  bool depends_on_batch() const override { return layout_.depends_on_batch(); }
  bool depends_on_head() const override { return layout_.depends_on_head(); }

 private:
  bool is_far(const Tile& t, int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
    const int64_t last = layout_.blocks(t.b) - 1;
    if ((j0 <= i1 + 1 && i0 <= j1 + 1) || i0 == 0 || j0 == 0 || i1 == last || j1 == last) return false;
    int64_t listings = 0;
    for (int64_t i = i0; i <= i1; ++i) listings += layout_.listings(t.b, t.h, i, j0, j1);
    return listings == 0;
  }

  BlockLayout layout_;
  int64_t shift_;
};

MaskRulePtr bind_block_window(const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data,
                              const AttentionShape& shape) {
  return std::make_shared<BlockWindowRule>(BlockLayout("masks::block_window", numbers, data, shape), shape.offset());
}

std::vector<Mask> sample_block_windows(const AttentionShape& s) {
  if (s.T > s.S) return {};
  const auto listed = at::arange(s.H * s.S * 2).remainder(std::max<int64_t>(1, s.S / 2)).view({1, s.H, s.S, 2});
  const auto start = at::arange(s.B).clamp_max(s.S), lengths = (s.S - start - 1).clamp_min(0);
  return {masks::block_window({.size = 2, .least = 3, .listed = listed.remainder(3)}),
          masks::block_window({.size = 1, .least = 5, .listed = listed.remainder(5)}),
          masks::block_window({.size = 1, .least = 5, .listed = listed.remainder(5).slice(1, 0, 1), .start = start}),
          masks::block_window({.size = 1,
                               .least = 5,
                               .listed = listed.remainder(5).expand({s.B, s.H, s.S, 2}),
                               .start = start,
                               .lengths = lengths})};
}

}  // namespace

namespace masks {

Mask block_window(const ListedBlocks& blocks) {
  FOVEA_CHECK(blocks.size >= 1, "size is ", blocks.size, ", wanted 1 or more");
  FOVEA_CHECK(blocks.least >= 1, "least is ", blocks.least, ", wanted 1 or more");
  FOVEA_CHECK(blocks.listed.defined(), "listed is undefined, wanted [B or 1, H or 1, blocks, each]");
  std::vector<at::Tensor> data{blocks.listed};
  for (const at::Tensor& tensor : {blocks.start, blocks.lengths})
    if (tensor.defined()) data.push_back(tensor);
  const int64_t form = int64_t{blocks.start.defined()} + 2 * int64_t{blocks.lengths.defined()};
  return Mask::leaf("block_window", {blocks.size, blocks.least, form}, std::move(data));
}

}  // namespace masks

void register_masks_block_window(MasksRegistry& registry) {
  registry.add("block_window", {.bind = bind_block_window, .samples = sample_block_windows});
}

}  // namespace fovea
