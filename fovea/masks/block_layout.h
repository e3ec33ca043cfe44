// Blocks of equal size over the text of each row, and the blocks that are listed for a block of queries beside its
// window (BigBird; Zaheer et al. 2020, section 2). What masks::block_window and scores::block_repeats share.
//
// Block i of a text of n blocks sees
//   i = 0 or n − 1   every block, once
//   otherwise        blocks 0, i − 1, i, i + 1 and n − 1 once each, and each listed block once more for every listing
// and in a text of fewer than `least` blocks every token sees every token once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/kernels/view.h"

namespace fovea {

class BlockLayout {
 public:
  // numbers: {size, least, form}; data: listed [B|1, H|1, N, R], then start [B] if form & 1, lengths [B] if form & 2;
  // integers of either type. Throws Error(kArgument), which begins with `what`.
  BlockLayout(const char* what, const std::vector<int64_t>& numbers, const std::vector<ArrayView>& data,
              const AttentionShape& shape);

  int64_t size() const { return size_; }
  // The text of row b: slots begin … end − 1 of the keys.
  int64_t begin(int64_t b) const { return text(b).begin; }
  int64_t end(int64_t b) const { return text(b).end; }
  int64_t blocks(int64_t b) const { return text(b).blocks; }
  bool is_sparse(int64_t b) const { return blocks(b) >= least_; }
  bool is_global(int64_t b, int64_t i) const { return i == 0 || i == blocks(b) - 1; }
  // How many of the blocks first … last are listed for block i, each as often as it is.
  int64_t listings(int64_t b, int64_t h, int64_t i, int64_t first, int64_t last) const {
    const int64_t* listed = list(b, h, i);
    int64_t count = 0;
    for (int64_t r = 0; r < each_; ++r) count += first <= listed[r] && listed[r] <= last;
    return count;
  }
  // How often block i sees block j.
  int64_t times(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!is_sparse(b) || is_global(b, i)) return 1;
    return int64_t{is_global(b, j) || (i - 1 <= j && j <= i + 1)} + listings(b, h, i, j, j);
  }
  bool depends_on_batch() const { return texts_.size() > 1 || listed_batches_ > 1; }
  bool depends_on_head() const { return listed_heads_ > 1; }

 private:
  struct Text {
    int64_t begin, end, blocks;
  };
  const Text& text(int64_t b) const { return texts_[texts_.size() > 1 ? size_t(b) : 0]; }
  const int64_t* list(int64_t b, int64_t h, int64_t i) const {
    const int64_t row = (listed_batches_ > 1 ? b : 0) * listed_heads_ + (listed_heads_ > 1 ? h : 0);
    return listed_.data() + (row * listed_rows_ + i) * each_;
  }
  void read_texts(const char* what, int64_t form, const std::vector<ArrayView>& data, const AttentionShape& shape);
  void read_lists(const char* what, const ArrayView& listed, const AttentionShape& shape);

  int64_t size_ = 1, least_ = 1;
  std::vector<Text> texts_;  // one, or one a row of the batch
  std::vector<int64_t> listed_;
  int64_t listed_batches_ = 1, listed_heads_ = 1, listed_rows_ = 0, each_ = 0;
};

}  // namespace fovea
