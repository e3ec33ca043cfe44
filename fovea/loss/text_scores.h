// What a set of texts is worth: translations beside the right ones, written texts by themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/loss/bleu.h"
#include "fovea/loss/bootstrap.h"
#include "fovea/loss/words.h"

namespace fovea {

struct TranslationScores {
  WordSplit words = WordSplit::k13a;  // how BLEU cut
  Bleu bleu;
  Interval bleu_interval;
  double chrf = 0;
  Interval chrf_interval;
  int64_t texts = 0;
};

// texts[i] should have been wanted[i]. Error(kArgument) where the lists differ in length or are empty.
TranslationScores score_translations(const std::vector<std::string>& texts, const std::vector<std::string>& wanted,
                                     WordSplit words, const BootstrapOptions& options = {});

// How much texts repeat, themselves and each other.
struct Diversity {
  // Different sequences of 1, 2, 3 words in all texts together, as a part of all sequences (Li et al. 2016): 1 where
  // nothing comes twice.
  std::array<double, 3> distinct{};
  // Sequences of four words that stood in the same text before, as a part of all: 0 where no text repeats itself.
  double repetition = 0;
  int64_t words = 0;
};

Diversity diversity_of(const std::vector<std::string>& texts, WordSplit words);

}  // namespace fovea
