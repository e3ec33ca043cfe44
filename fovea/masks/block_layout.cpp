// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/block_layout.h"

#include <algorithm>

namespace fovea {
namespace {

// Scores carry their integers as floating numbers.
int64_t integer_at(const ArrayView& view, int64_t i, int64_t j = 0, int64_t k = 0, int64_t l = 0) {
  return view.type == ViewType::kInt64 ? view.at<int64_t>(i, j, k, l) : int64_t(view.at<float>(i, j, k, l));
}

}  // namespace

BlockLayout::BlockLayout(const char* what, const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data,
                         const AttentionShape& shape) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   numbers.size() == 3 && numbers[0] >= 1 && numbers[1] >= 1 && (numbers[2] & ~int64_t{3}) == 0, what,
                   ": wanted a size and a least number of blocks of 1 or more, and a form of 0 … 3");
  const int64_t form = numbers[2];
  FOVEA_CHECK_KIND(ErrorKind::kArgument, int64_t(data.size()) == 1 + (form & 1) + (form >> 1), what, ": form ", form,
                   " does not go with ", data.size(), " tensors");
  for (const ArrayView& view : data)
    FOVEA_CHECK_KIND(ErrorKind::kArgument, view.type != ViewType::kBool, what, ": wanted numbers, got bool");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, shape.T <= shape.S, what, ": ", shape.T, " queries but only ", shape.S,
                   " keys");
  size_ = numbers[0], least_ = numbers[1];
  read_texts(what, form, data, shape);
  read_lists(what, data[0], shape);
}

void BlockLayout::read_texts(const char* what, int64_t form, const std::vector<ArrayView>& data,
                             const AttentionShape& shape) {
  const ArrayView* start = form & 1 ? &data[1] : nullptr;
  const ArrayView* lengths = form & 2 ? &data.back() : nullptr;
  for (const ArrayView* view : {start, lengths})
    FOVEA_CHECK_KIND(ErrorKind::kArgument, view == nullptr || (view->rank == 1 && view->size[0] == shape.B), what,
                     ": start and lengths: wanted [", shape.B, "]");
  for (int64_t b = 0; b < (form == 0 ? 1 : shape.B); ++b) {
    const int64_t begin = start ? integer_at(*start, b) : 0;
    const int64_t end = lengths ? begin + integer_at(*lengths, b) : shape.S;
    FOVEA_CHECK_KIND(ErrorKind::kArgument, 0 <= begin && begin <= end && end <= shape.S, what, ": sequence ", b,
                     " is slots ", begin, " … ", end, ", wanted some of 0 … ", shape.S);
    texts_.push_back({begin, end, (end - begin) / size_ + ((end - begin) % size_ != 0)});
  }
}

void BlockLayout::read_lists(const char* what, const ArrayView& listed, const AttentionShape& shape) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   listed.rank == 4 && (listed.size[0] == 1 || listed.size[0] == shape.B) &&
                       (listed.size[1] == 1 || listed.size[1] == shape.H),
                   what, ": listed: wanted [B or 1, H or 1, blocks, each] with B = ", shape.B, ", H = ", shape.H);
  listed_batches_ = listed.size[0], listed_heads_ = listed.size[1];
  listed_rows_ = listed.size[2], each_ = listed.size[3];
  for (int64_t b = 0; b < listed_batches_; ++b)
    for (int64_t h = 0; h < listed_heads_; ++h)
      for (int64_t i = 0; i < listed_rows_; ++i)
        for (int64_t r = 0; r < each_; ++r) listed_.push_back(int32_t(integer_at(listed, b, h, i, r)));
  for (int64_t b = 0; b < std::max<int64_t>(listed_batches_, int64_t(texts_.size())); ++b) {
    if (!is_sparse(b)) continue;
    FOVEA_CHECK_KIND(ErrorKind::kArgument, listed_rows_ >= blocks(b), what, ": sequence ", b, " has ", blocks(b),
                     " blocks, there are lists for ", listed_rows_);
    for (int64_t h = 0; h < listed_heads_; ++h)
      for (int64_t i = 1; i + 1 < blocks(b); ++i)
        for (int64_t r = 0; r < each_; ++r)
          FOVEA_CHECK_KIND(ErrorKind::kArgument, 0 <= list(b, h, i)[r] && list(b, h, i)[r] < blocks(b), what,
                           ": block ", list(b, h, i)[r], " is listed for sequence ", b, ", which has ", blocks(b));
  }
}

}  // namespace fovea
