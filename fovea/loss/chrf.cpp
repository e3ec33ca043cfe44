// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/chrf.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "fovea/loss/words.h"

namespace fovea {
namespace {

std::unordered_map<std::u32string, int64_t> character_sequences(const std::u32string& text, size_t length) {
  std::unordered_map<std::u32string, int64_t> out;
  for (size_t begin = 0; begin + length <= text.size(); ++begin) ++out[text.substr(begin, length)];
  return out;
}

}  // namespace

void ChrfCounts::add(const ChrfCounts& other, int64_t times) {
  for (size_t n = 0; n < matches.size(); ++n) {
    matches[n] += times * other.matches[n];
    sequences[n] += times * other.sequences[n];
    wanted[n] += times * other.wanted[n];
  }
}

ChrfCounts count_chrf(std::string_view text, std::string_view wanted) {
  ChrfCounts out;
  const std::u32string have = visible_characters(text), want = visible_characters(wanted);
  for (size_t n = 0; n < out.matches.size(); ++n) {
    const auto of_wanted = character_sequences(want, n + 1);
    if (of_wanted.empty()) break;
    out.wanted[n] = int64_t(want.size() - n);
    for (const auto& [sequence, count] : character_sequences(have, n + 1)) {
      out.sequences[n] += count;
      if (const auto found = of_wanted.find(sequence); found != of_wanted.end())
        out.matches[n] += std::min(count, found->second);
    }
  }
  return out;
}

double chrf_of(const ChrfCounts& counts) {
  double precision = 0, recall = 0;
  int64_t lengths = 0;
  for (size_t n = 0; n < counts.matches.size(); ++n) {
    if (counts.sequences[n] == 0 || counts.wanted[n] == 0) continue;
    precision += double(counts.matches[n]) / double(counts.sequences[n]);
    recall += double(counts.matches[n]) / double(counts.wanted[n]);
    ++lengths;
  }
  if (lengths == 0 || precision + recall == 0) return 0;
  precision /= double(lengths), recall /= double(lengths);
  constexpr double kBeta2 = 4;  // β = 2
  return 100 * (1 + kBeta2) * precision * recall / (kBeta2 * precision + recall);
}

}  // namespace fovea
