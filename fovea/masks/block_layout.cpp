// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/block_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace fovea {
namespace {

// Scores carry their integers as floating numbers. `before` and `after` stand around one that is none.
int64_t integer(const ArrayView& view, const std::array<int64_t, 4>& at, const std::string& before, const char* after) {
  const auto [i, j, k, l] = at;
  if (view.type == ViewType::kInt64) return view.at<int64_t>(i, j, k, l);
  const float number = view.at<float>(i, j, k, l);
  const bool whole = std::abs(number) < 9e18F && number == std::floor(number);  // NaN is not
  FOVEA_CHECK_KIND(ErrorKind::kArgument, whole, before, number, after, ", wanted a whole number");
  return int64_t(number);
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
  const auto number = [&](const ArrayView& view, int64_t b) {
    return integer(view, {b}, std::string(what) + ": a start or length is ", "");
  };
  for (int64_t b = 0; b < (form == 0 ? 1 : shape.B); ++b) {
    const int64_t begin = start ? number(*start, b) : 0, most = shape.S - std::clamp<int64_t>(begin, 0, shape.S);
    const int64_t length = lengths ? number(*lengths, b) : most;
    FOVEA_CHECK_KIND(ErrorKind::kArgument, 0 <= begin && begin <= shape.S && 0 <= length && length <= most, what,
                     ": sequence ", b, " is ", length, " slots from ", begin, " on, wanted some of 0 … ", shape.S);
    const int64_t end = begin + length;
    texts_.push_back({begin, end, (end - begin) / size_ + ((end - begin) % size_ != 0)});
  }
}

void BlockLayout::read_lists(const char* what, const ArrayView& listed, const AttentionShape& shape) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   listed.rank == 4 && (listed.size[0] == 1 || listed.size[0] == shape.B) &&
                       (listed.size[1] == 1 || listed.size[1] == shape.H),
                   what, ": listed: wanted [B or 1, H or 1, blocks, each] with B = ", shape.B, ", H = ", shape.H);
  const std::string before = std::string(what) + ": block ";
  listed_batches_ = listed.size[0], listed_heads_ = listed.size[1];
  listed_rows_ = listed.size[2], each_ = listed.size[3];
  for (int64_t b = 0; b < listed_batches_; ++b)
    for (int64_t h = 0; h < listed_heads_; ++h)
      for (int64_t i = 0; i < listed_rows_; ++i)
        for (int64_t r = 0; r < each_; ++r) listed_.push_back(integer(listed, {b, h, i, r}, before, " is listed"));
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
