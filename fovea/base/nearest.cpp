// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/nearest.h"

#include <algorithm>
#include <numeric>

namespace fovea {
namespace {

constexpr size_t kMostKnown = 40;  // names that a message lists

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (const auto best = nearest(word, candidates); !best.empty()) return "; did you mean \"" + best + "\"?";
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kMostKnown); ++i) list += (i ? ", " : "") + candidates[i];
  return "; known: " + list + (candidates.size() > kMostKnown ? ", …" : "");
}

}  // namespace fovea
