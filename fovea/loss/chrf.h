// chrF (Popović 2015): the F score of character sequences of length 1 … 6, blanks left out, recall counting twice. Over
// a whole set of texts: counts are added up, precision and recall are averaged over the lengths. One right text for
// each. Equal to the package sacrebleu's with its defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fovea {

struct ChrfCounts {
  std::array<int64_t, 6> matches{};    // sequences of 1 … 6 characters that both texts have
  std::array<int64_t, 6> sequences{};  // those of the text; none where the right text has none of this length
  std::array<int64_t, 6> wanted{};     // those of the right text

  void add(const ChrfCounts& other, int64_t times = 1);
};

// Texts are valid UTF-8.
ChrfCounts count_chrf(std::string_view text, std::string_view wanted);

// 0 … 100.
double chrf_of(const ChrfCounts& counts);

}  // namespace fovea
