// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_map>

namespace fovea {
namespace {

// Sequences of `length` words and how often each occurs. Words hold no blanks.
std::unordered_map<std::string, int64_t> word_sequences(const std::vector<std::string>& words, size_t length) {
  std::unordered_map<std::string, int64_t> out;
  for (size_t begin = 0; begin + length <= words.size(); ++begin) {
    std::string key;
    for (size_t i = 0; i < length; ++i) key += words[begin + i] + ' ';
    ++out[key];
  }
  return out;
}

}  // namespace

void BleuCounts::add(const BleuCounts& other, int64_t times) {
  for (size_t n = 0; n < matches.size(); ++n) {
    matches[n] += times * other.matches[n];
    sequences[n] += times * other.sequences[n];
  }
  words += times * other.words;
  wanted_words += times * other.wanted_words;
}

BleuCounts count_bleu(const std::vector<std::string>& words, const std::vector<std::string>& wanted) {
  BleuCounts out;
  out.words = int64_t(words.size());
  out.wanted_words = int64_t(wanted.size());
  for (size_t n = 0; n < out.matches.size(); ++n) {
    const auto of_wanted = word_sequences(wanted, n + 1);
    for (const auto& [sequence, count] : word_sequences(words, n + 1)) {
      out.sequences[n] += count;
      if (const auto found = of_wanted.find(sequence); found != of_wanted.end())
        out.matches[n] += std::min(count, found->second);
    }
  }
  return out;
}

Bleu bleu_of(const BleuCounts& counts) {
  Bleu out;
  const auto& [matches, sequences, words, wanted] = counts;
  if (words > 0) out.brevity = words < wanted ? std::exp(1 - double(wanted) / double(words)) : 1;
  double smaller = 1, logarithms = 0;
  bool any = false, all = true;
  for (size_t n = 0; n < matches.size(); ++n) {
    if (sequences[n] == 0) {  // all texts are shorter than this
      all = false;
      break;
    }
    if (matches[n] == 0) smaller *= 2;
    const double hits = matches[n] > 0 ? double(matches[n]) : 1 / smaller;
    any = any || matches[n] > 0;
    out.precisions[n] = 100 * hits / double(sequences[n]);
    logarithms += std::log(out.precisions[n]) / double(matches.size());
  }
  if (!any) out.precisions = {};
  if (any && all) out.score = out.brevity * std::exp(logarithms);
  return out;
}

}  // namespace fovea
