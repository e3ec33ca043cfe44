// Pair of token ids -> rank of their merge and the merged id: the innermost look-up of byte-pair encoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/text/hash.h"

namespace fovea::text {

class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint32_t left = kNone, right = kNone, rank = kNone, merged = kNone;
  };

  // For up to `merges` entries; forgets what it held.
  void reserve(size_t merges) {
    entries_.assign(table_size(merges), {});
    shift_ = 64;
    for (size_t size = entries_.size(); size > 1; size /= 2) --shift_;
  }
  bool empty() const { return entries_.empty(); }
  // Replaces an entry of the same pair.
  void set(const Entry& entry) { entries_[place(entry.left, entry.right)] = entry; }
  // An entry with rank kNone where the pair does not merge. Not on an empty table.
  const Entry& find(uint32_t left, uint32_t right) const { return entries_[place(left, right)]; }

 private:
  size_t place(uint32_t left, uint32_t right) const {
    size_t at = ((uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u) >> shift_;
    const size_t mask = entries_.size() - 1;
    while (entries_[at].rank != kNone && (entries_[at].left != left || entries_[at].right != right))
      at = (at + 1) & mask;
    return at;
  }

  std::vector<Entry> entries_;
  int shift_ = 0;
};

}  // namespace fovea::text
