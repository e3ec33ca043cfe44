// Tokens of recent short words: most of a text is a few thousand words. Direct mapped, one cache line an entry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "fovea/text/hash.h"

namespace fovea::text {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 30, kMostTokens = 5;

  struct alignas(64) Entry {
    uint8_t length = 0, count = 0;  // length 0: free
    char word[kLongestWord];
    uint8_t sizes[kMostTokens];
    uint32_t ids[kMostTokens];
  };

  // The entry that holds `word` or would hold it. Needs 0 < size <= kLongestWord.
  Entry& entry(std::string_view word) { return entries_[hash_bytes(word) & (kEntries - 1)]; }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.length == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }
  static void store(Entry& entry, std::string_view word, const uint32_t* ids, const uint32_t* sizes, size_t count) {
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::copy(ids, ids + count, entry.ids);
    std::transform(sizes, sizes + count, entry.sizes, [](uint32_t size) { return static_cast<uint8_t>(size); });
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 14;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace fovea::text
