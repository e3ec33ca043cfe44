// Finds stop strings in a text that arrives in pieces, wherever the pieces are cut, and holds back what may become one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

class StopStrings {
 public:
  // UTF-8, none empty.
  explicit StopStrings(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {}

  // Appends `piece` and returns the text that may be shown now: nothing of a stop string, nothing that may still turn
  // out to be the beginning of one. The stop string that is complete first counts (the longest, where several end at
  // the same place); from then on nothing comes.
  std::string push(std::string_view piece);
  // The text held back, when no more comes; empty after a stop string.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace fovea
