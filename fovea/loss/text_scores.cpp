// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/text_scores.h"

#include <cstddef>
#include <unordered_set>

#include "fovea/base/check.h"
#include "fovea/loss/chrf.h"

namespace fovea {
namespace {

// Counts of single texts, each taken as often as `times` says.
template <class Counts>
Counts total_of(const std::vector<Counts>& each, const std::vector<int64_t>& times) {
  Counts out;
  for (size_t i = 0; i < each.size(); ++i)
    if (times[i] > 0) out.add(each[i], times[i]);
  return out;
}

std::string sequence_key(const std::vector<std::string>& words, size_t begin, size_t length) {
  std::string out;
  for (size_t i = 0; i < length; ++i) out += words[begin + i] + ' ';
  return out;
}

double part_of(int64_t part, int64_t whole) { return whole > 0 ? double(part) / double(whole) : 0; }

}  // namespace

TranslationScores score_translations(const std::vector<std::string>& texts, const std::vector<std::string>& wanted,
                                     WordSplit words, const BootstrapOptions& options) {
  FOVEA_CHECK(texts.size() == wanted.size() && !texts.empty(), "there are ", texts.size(), " texts and ", wanted.size(),
              " right ones; wanted as many of both, at least 1");
  std::vector<BleuCounts> bleu;
  std::vector<ChrfCounts> chrf;
  for (size_t i = 0; i < texts.size(); ++i) {
    bleu.push_back(count_bleu(split_words(texts[i], words), split_words(wanted[i], words)));
    chrf.push_back(count_chrf(texts[i], wanted[i]));
  }
  const std::vector<int64_t> once(texts.size(), 1);
  TranslationScores out{.words = words, .bleu = bleu_of(total_of(bleu, once)), .texts = int64_t(texts.size())};
  out.chrf = chrf_of(total_of(chrf, once));
  out.bleu_interval = bootstrap(
      out.texts, [&](const auto& counts) { return bleu_of(total_of(bleu, counts)).score; }, options);
  out.chrf_interval = bootstrap(
      out.texts, [&](const auto& counts) { return chrf_of(total_of(chrf, counts)); }, options);
  return out;
}

Diversity diversity_of(const std::vector<std::string>& texts, WordSplit split) {
  Diversity out;
  std::vector<std::vector<std::string>> words;
  for (const std::string& text : texts) {
    words.push_back(split_words(text, split));
    out.words += int64_t(words.back().size());
  }
  for (size_t n = 1; n <= out.distinct.size(); ++n) {
    std::unordered_set<std::string> different;
    int64_t all = 0;
    for (const auto& text : words)
      for (size_t begin = 0; begin + n <= text.size(); ++begin, ++all) different.insert(sequence_key(text, begin, n));
    out.distinct[n - 1] = part_of(int64_t(different.size()), all);
  }
  constexpr size_t kLength = 4;
  int64_t again = 0, all = 0;
  for (const auto& text : words) {
    std::unordered_set<std::string> seen;
    for (size_t begin = 0; begin + kLength <= text.size(); ++begin, ++all)
      again += !seen.insert(sequence_key(text, begin, kLength)).second;
  }
  out.repetition = part_of(again, all);
  return out;
}

}  // namespace fovea
