// Token strings and their ids, both ways.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::text {

class Vocabulary {
 public:
  using Id = uint32_t;

  Vocabulary() = default;
  enum class Repeats { kRefused, kLastCounts };
  // Error(kInput) `source: …` for an id given twice, for an id far beyond their number, and for a token given twice
  // (or find() has the last one's id). Ids may have gaps.
  Vocabulary(const std::vector<std::pair<std::string, int64_t>>& tokens, std::string_view source,
             Repeats repeats = Repeats::kRefused);

  std::optional<Id> find(std::string_view token) const;
  // The token of an id, or nothing for a gap and beyond the end.
  std::optional<std::string_view> token(int64_t id) const;
  // Appends them as a JSON object in order of ids.
  void write_json(std::string& out) const;
  size_t size() const { return count_; }                                   // tokens
  int64_t end_id() const { return static_cast<int64_t>(places_.size()); }  // one past the largest id

 private:
  struct Place {
    uint32_t begin = 0, size = kGap;  // in bytes_
  };
  struct Slot {
    uint32_t hash = 0;
    Id id = kFree;
  };
  static constexpr uint32_t kGap = UINT32_MAX;
  static constexpr Id kFree = UINT32_MAX;

  std::string_view at(Id id) const { return std::string_view(bytes_).substr(places_[id].begin, places_[id].size); }

  std::string bytes_;
  std::vector<Place> places_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace fovea::text
