// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/stop_strings.h"

#include <algorithm>
#include <utility>

namespace fovea {
namespace {

// Length of the longest end of `text` that begins `stop` without being all of it.
size_t begun(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && text.substr(text.size() - length) != stop.substr(0, length)) --length;
  return length;
}

}  // namespace

std::string StopStrings::push(std::string_view piece) {
  if (found_) return "";
  held_ += piece;
  size_t first_end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < first_end || (end == first_end && at < begin)) first_end = end, begin = at;
  }
  if (first_end != std::string::npos) {
    found_ = true;
    held_.resize(begin);
    return std::exchange(held_, "");
  }
  size_t hold = 0;
  for (const std::string& stop : stops_) hold = std::max(hold, begun(held_, stop));
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() { return std::exchange(held_, ""); }

}  // namespace fovea
