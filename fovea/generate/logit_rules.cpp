// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/logit_rules.h"

#include <algorithm>
#include <cmath>

#include "fovea/generate/options.h"

namespace fovea {
namespace {

float best_logit(const Candidates& candidates) {
  return std::min_element(candidates.begin(), candidates.end(), better)->logit;
}

// Keeps `last` and what is better.
void keep_down_to(Candidates& candidates, const Candidate& last) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return better(last, candidate); });
}

// Sorts ever longer heads of `candidates`, best first, until their weights reach `wanted`; returns the one that does.
// A nucleus is small as a rule, so most of a large vocabulary is never sorted.
Candidate crossing(Candidates candidates, float best, double wanted) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t step = 64; sorted < candidates.size(); step *= 4) {
    const size_t end = std::min(candidates.size(), sorted + step);
    std::nth_element(candidates.begin() + sorted, candidates.begin() + (end - 1), candidates.end(), better);
    std::sort(candidates.begin() + sorted, candidates.begin() + end, better);
    for (; sorted < end; ++sorted) {
      sum += std::exp(candidates[sorted].logit - best);
      if (sum >= wanted) return candidates[sorted];
    }
  }
  return candidates.back();
}

}  // namespace

namespace logit_rules {

LogitRule repetition_penalty(double penalty, int64_t pad_id) {
  return [=](Candidates& candidates, std::span<const int64_t> history) {
    if (candidates.empty()) return;
    std::vector<bool> used(candidates.back().id + 1);
    for (int64_t id : history)
      if (id != pad_id && id >= 0 && id < int64_t(used.size())) used[id] = true;
    for (Candidate& candidate : candidates)
      if (used[candidate.id])
        candidate.logit = float(candidate.logit > 0 ? candidate.logit / penalty : candidate.logit * penalty);
  };
}

LogitRule no_repeat_ngram(int64_t n) {
  return [n](Candidates& candidates, std::span<const int64_t> history) {
    const int64_t known = n - 1, last = int64_t(history.size()) - n;
    if (last < 0) return;
    const auto end = history.last(known);
    std::vector<int64_t> banned;
    for (int64_t i = 0; i <= last; ++i)
      if (std::equal(end.begin(), end.end(), history.begin() + i)) banned.push_back(history[i + known]);
    if (banned.empty()) return;
    std::sort(banned.begin(), banned.end());
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return std::binary_search(banned.begin(), banned.end(), candidate.id);
    });
  };
}

LogitRule temperature(double temperature) {
  return [temperature](Candidates& candidates, std::span<const int64_t>) {
    if (candidates.empty()) return;
    const double best = best_logit(candidates), inverse = 1 / temperature;
    for (Candidate& candidate : candidates) {
      // The best one's difference is 0, which an infinite inverse would turn into NaN.
      const double difference = candidate.logit - best;
      candidate.logit = difference == 0 ? 0 : float(difference * inverse);
    }
  };
}

LogitRule top_k(int64_t k) {
  return [k](Candidates& candidates, std::span<const int64_t>) {
    if (int64_t(candidates.size()) <= k) return;
    Candidates ranked = candidates;
    std::nth_element(ranked.begin(), ranked.begin() + (k - 1), ranked.end(), better);
    keep_down_to(candidates, ranked[k - 1]);
  };
}

LogitRule top_p(double p) {
  return [p](Candidates& candidates, std::span<const int64_t>) {
    if (candidates.empty() || p >= 1) return;
    const float best = best_logit(candidates);
    double total = 0;
    for (const Candidate& candidate : candidates) total += std::exp(candidate.logit - best);
    keep_down_to(candidates, crossing(candidates, best, p * total));
  };
}

LogitRule min_p(double fraction) {
  return [fraction](Candidates& candidates, std::span<const int64_t>) {
    if (candidates.empty()) return;
    const double least = best_logit(candidates) + std::log(fraction);
    std::erase_if(candidates, [least](const Candidate& candidate) { return candidate.logit < least; });
  };
}

}  // namespace logit_rules

std::vector<LogitRule> make_logit_rules(const GenerateOptions& options) {
  std::vector<LogitRule> rules = options.rules;
  if (options.repetition_penalty != 1)
    rules.push_back(logit_rules::repetition_penalty(options.repetition_penalty, options.pad_id));
  if (options.no_repeat_ngram > 0) rules.push_back(logit_rules::no_repeat_ngram(options.no_repeat_ngram));
  if (options.temperature == 0) return rules;
  if (options.temperature != 1) rules.push_back(logit_rules::temperature(options.temperature));
  if (options.top_k > 0) rules.push_back(logit_rules::top_k(options.top_k));
  if (options.top_p < 1) rules.push_back(logit_rules::top_p(options.top_p));
  if (options.min_p > 0) rules.push_back(logit_rules::min_p(options.min_p));
  return rules;
}

}  // namespace fovea
