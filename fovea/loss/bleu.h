// BLEU (Papineni et al. 2002): how many of a text's word sequences stand in the text it should have been. Over a whole
// set of texts, sequences of up to four words; where one length has no match at all, its precision is halved again and
// again instead of being zero. One right text for each. Equal to the package sacrebleu's with its defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

// What is counted in one text, or, added up, in many.
struct BleuCounts {
  std::array<int64_t, 4> matches{};    // sequences of 1 … 4 words that the right text has too
  std::array<int64_t, 4> sequences{};  // all of them
  int64_t words = 0, wanted_words = 0;

  void add(const BleuCounts& other, int64_t times = 1);
};

BleuCounts count_bleu(const std::vector<std::string>& words, const std::vector<std::string>& wanted);

struct Bleu {
  double score = 0;                    // 0 … 100
  std::array<double, 4> precisions{};  // 0 … 100, by length
  double brevity = 0;                  // the factor that texts too short cost, equation 3
};

Bleu bleu_of(const BleuCounts& counts);

}  // namespace fovea
