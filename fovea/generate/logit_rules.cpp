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

// The candidate with which the best ones' share of all weight reaches p. Those lighter than (1 − p) / n of the whole
// weigh less than 1 − p together, so they lie beyond it: most of a large vocabulary is never sorted.
Candidate crossing(const Candidates& candidates, double p) {
  const float best = best_logit(candidates);
  double total = 0;
  for (const Candidate& candidate : candidates) total += std::exp(candidate.logit - best);
  // Half of that, so that rounding cannot matter.
  const double least = best + std::log((1 - p) * total / double(candidates.size()) / 2);
  Candidates ranked;
  for (const Candidate& candidate : candidates)
    if (candidate.logit >= least) ranked.push_back(candidate);
  std::sort(ranked.begin(), ranked.end(), better);
  double sum = 0;
  for (const Candidate& candidate : ranked) {
    sum += std::exp(candidate.logit - best);
    if (sum >= p * total) return candidate;
  }
  return ranked.back();
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
    Candidates ranked(k);
    std::partial_sort_copy(candidates.begin(), candidates.end(), ranked.begin(), ranked.end(), better);
    keep_down_to(candidates, ranked.back());
  };
}

LogitRule top_p(double p) {
  return [p](Candidates& candidates, std::span<const int64_t>) {
    if (candidates.empty() || p >= 1) return;
    keep_down_to(candidates, crossing(candidates, p));
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

void apply_rules(const std::vector<LogitRule>& rules, const GenerateOptions& options, int64_t length,
                 std::span<const int64_t> history, Candidates& candidates) {
  if (length < options.min_new_tokens)
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return std::count(options.end_ids.begin(), options.end_ids.end(), candidate.id) > 0;
    });
  for (const LogitRule& rule : rules) rule(candidates, history);
}

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
