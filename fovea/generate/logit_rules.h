// Rules that change a row's scores for the next token before one is taken: small functions, applied in a chain.
//
// A rule sees the candidates (raw logits, ids ascending) and the row's tokens so far (prompt, then answer; an
// encoder-decoder's target from its start token on). It may change logits and remove candidates; ids stay ascending.
// A rule that ranks breaks ties by the lower id. A rule may leave nothing: then the row ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fovea {

struct GenerateOptions;

struct Candidate {
  int32_t id;
  float logit;
};
using Candidates = std::vector<Candidate>;

using LogitRule = std::function<void(Candidates& candidates, std::span<const int64_t> history)>;

// Higher logit first, then lower id: a total order, so a choice never depends on how something was sorted.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

namespace logit_rules {

// Tokens in the history, once however often they stand there: a positive logit is divided by the penalty, a negative
// one multiplied (Keskar et al. 2019, "CTRL", section 4.1, with the sign minded). `pad_id` never counts.
LogitRule repetition_penalty(double penalty, int64_t pad_id = -1);
// Removes every token that would complete a run of n tokens which the history holds already.
LogitRule no_repeat_ngram(int64_t n);
// Divides by `temperature` > 0, after a shift that makes the best logit 0, so that no temperature overflows.
LogitRule temperature(double temperature);
// Keeps the k best, k ≥ 1.
LogitRule top_k(int64_t k);
// Keeps the fewest best candidates whose probabilities reach p: the one that crosses p stays (Holtzman et al. 2020).
// p = 0 keeps the best one, p = 1 all.
LogitRule top_p(double p);
// Keeps candidates whose probability is at least `fraction` of the best one's.
LogitRule min_p(double fraction);

}  // namespace logit_rules

// The rules that `options` asks for, in the order they apply: the caller's own, repetition penalty, no-repeat, and,
// where a token is drawn (temperature > 0), temperature, top-k, top-p, min-p. Rules that would do nothing are left out.
std::vector<LogitRule> make_logit_rules(const GenerateOptions& options);

// Applies them to a row of `length` new tokens: first, end tokens go that come too early.
void apply_rules(const std::vector<LogitRule>& rules, const GenerateOptions& options, int64_t length,
                 std::span<const int64_t> history, Candidates& candidates);

}  // namespace fovea
