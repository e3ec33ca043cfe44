// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/logit_rules.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/generate/next_token.h"
#include "fovea/generate/options.h"

namespace fovea {
namespace {

Candidates from_logits(const std::vector<float>& logits) {
  Candidates out;
  for (size_t id = 0; id < logits.size(); ++id) out.push_back({int32_t(id), logits[id]});
  return out;
}

Candidates from_probabilities(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return from_logits(probabilities);
}

Candidates after(Candidates candidates, const LogitRule& rule, const std::vector<int64_t>& history = {}) {
  rule(candidates, history);
  return candidates;
}

std::vector<int> ids(const Candidates& candidates) {
  std::vector<int> out;
  for (const Candidate& candidate : candidates) out.push_back(candidate.id);
  return out;
}

// huggingface/transformers #2302: a negative logit was divided, which makes its token more likely.
TEST(RepetitionPenalty, DividesPositiveAndMultipliesNegativeOncePerToken) {
  const auto out = after(from_logits({-2, 1, 1, 0, 5}), logit_rules::repetition_penalty(1.5, 4), {0, 1, 1, 3, 4, 4});
  EXPECT_FLOAT_EQ(out[0].logit, -3);
  EXPECT_FLOAT_EQ(out[1].logit, 2.f / 3);
  EXPECT_FLOAT_EQ(out[2].logit, 1);
  EXPECT_FLOAT_EQ(out[3].logit, 0);
  EXPECT_FLOAT_EQ(out[4].logit, 5);  // padding
}

TEST(RepetitionPenalty, LooksTokensUpById) {
  Candidates candidates{{3, 1.f}, {7, 2.f}};  // another rule removed the rest
  logit_rules::repetition_penalty(2)(candidates, std::vector<int64_t>{7, 9, 0});
  EXPECT_FLOAT_EQ(candidates[0].logit, 1);
  EXPECT_FLOAT_EQ(candidates[1].logit, 1);
}

TEST(NoRepeatNgram, RemovesWhatWouldCompleteAKnownRun) {
  const Candidates all = from_logits({0, 0, 0, 0, 0});
  // "1 2" stands before 3 and before 4; the history ends with "1 2".
  EXPECT_EQ(ids(after(all, logit_rules::no_repeat_ngram(3), {1, 2, 3, 1, 2, 4, 1, 2})), (std::vector{0, 1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::no_repeat_ngram(2), {1, 2, 3, 1})), (std::vector{0, 1, 3, 4}));
  EXPECT_EQ(ids(after(all, logit_rules::no_repeat_ngram(1), {1, 4})), (std::vector{0, 2, 3}));
  EXPECT_EQ(ids(after(all, logit_rules::no_repeat_ngram(3), {1, 2})), (std::vector{0, 1, 2, 3, 4}));
  EXPECT_TRUE(after(all, logit_rules::no_repeat_ngram(1), {0, 1, 2, 3, 4}).empty());
}

TEST(Temperature, DividesAfterAShift) {
  const auto out = after(from_logits({3, 1, 4}), logit_rules::temperature(0.5));
  EXPECT_FLOAT_EQ(out[0].logit, -2);
  EXPECT_FLOAT_EQ(out[1].logit, -6);
  EXPECT_FLOAT_EQ(out[2].logit, 0);
}

TEST(Temperature, TinyOneLeavesTheBestAndNoNaN) {
  for (const double tiny : {1e-30, 1e-310}) {
    const auto out = after(from_logits({3, 1, 3}), logit_rules::temperature(tiny));
    EXPECT_EQ(out[0].logit, 0);
    EXPECT_LT(out[1].logit, -1e29f);
    EXPECT_EQ(out[2].logit, 0);
  }
}

TEST(TopK, KeepsExactlyKWithTheLowerIdAmongEquals) {
  const Candidates all = from_logits({1, 3, 2, 3, 2});
  EXPECT_EQ(ids(after(all, logit_rules::top_k(1))), (std::vector{1}));
  EXPECT_EQ(ids(after(all, logit_rules::top_k(3))), (std::vector{1, 2, 3}));
  EXPECT_EQ(ids(after(all, logit_rules::top_k(5))), (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(ids(after(all, logit_rules::top_k(9))), (std::vector{0, 1, 2, 3, 4}));
}

// aws-neuron/transformers-neuronx #46: the token that crosses the threshold was dropped.
TEST(TopP, KeepsTheTokenThatCrossesTheThreshold) {
  const Candidates all = from_probabilities({0.1f, 0.2f, 0.7f});
  EXPECT_EQ(ids(after(all, logit_rules::top_p(0.8))), (std::vector{1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::top_p(0.6))), (std::vector{2}));
  EXPECT_EQ(ids(after(all, logit_rules::top_p(0.95))), (std::vector{0, 1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::top_p(1))), (std::vector{0, 1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::top_p(0))), (std::vector{2}));
}

// mlx-lm PR #1912, transformers PR #19839: with tiny p, nothing was left; bf16 has many equal logits.
TEST(TopP, TinyPKeepsTheBestOfManyBf16Logits) {
  at::manual_seed(3);
  const at::Tensor logits = at::randn({1, 1, 4096}).to(at::kBFloat16);
  const NextTokenScores scores(logits);
  const Candidates all = scores.candidates(0);
  ASSERT_EQ(all.size(), 4096u);
  for (const double p : {0.0, 1e-8}) {
    const auto kept = after(all, logit_rules::top_p(p));
    ASSERT_EQ(kept.size(), 1u) << p;
    EXPECT_EQ(kept[0].id, logits.argmax().item<int64_t>());
    EXPECT_EQ(kept[0].id, scores.best(0));
  }
  EXPECT_EQ(after(all, logit_rules::top_p(1)).size(), 4096u);
}

TEST(TopP, EqualsTheDefinitionOnLargeVocabularies) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({1, 1, 3000}) * 2;
  const Candidates all = NextTokenScores(logits).candidates(0);
  const auto [sorted, order] = at::softmax(logits.view({-1}).to(at::kDouble), 0).sort(0, true);
  for (const double p : {0.1, 0.5, 0.9, 0.99}) {
    const int64_t wanted = (sorted.cumsum(0) < p).sum().item<int64_t>() + 1;
    const auto [expected, unused] = order.narrow(0, 0, wanted).sort(0);
    const auto kept = after(all, logit_rules::top_p(p));
    ASSERT_EQ(int64_t(kept.size()), wanted) << p;
    for (int64_t i = 0; i < wanted; ++i) EXPECT_EQ(kept[i].id, expected[i].item<int64_t>());
  }
}

TEST(MinP, ComparesWithTheBest) {
  const Candidates all = from_probabilities({0.1f, 0.2f, 0.7f});
  EXPECT_EQ(ids(after(all, logit_rules::min_p(0.1))), (std::vector{0, 1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::min_p(0.2))), (std::vector{1, 2}));
  EXPECT_EQ(ids(after(all, logit_rules::min_p(1))), (std::vector{2}));
}

TEST(Rules, AcceptNothing) {
  const std::vector<LogitRule> rules{logit_rules::repetition_penalty(2),
                                     logit_rules::no_repeat_ngram(1),
                                     logit_rules::temperature(0.5),
                                     logit_rules::top_k(2),
                                     logit_rules::top_p(0.5),
                                     logit_rules::min_p(0.5)};
  for (const LogitRule& rule : rules) EXPECT_TRUE(after({}, rule, {1, 2}).empty());
}

TEST(Rules, ChainHoldsOnlyWhatDoesSomething) {
  EXPECT_EQ(make_logit_rules({}).size(), 0u);
  EXPECT_EQ(make_logit_rules({.top_k = 5, .top_p = 0.5}).size(), 0u);  // greedy: the best one survives them anyway
  EXPECT_EQ(make_logit_rules({.temperature = 1}).size(), 0u);
  EXPECT_EQ(make_logit_rules({.temperature = 0.7, .top_k = 5, .top_p = 0.5, .min_p = 0.1}).size(), 4u);
  EXPECT_EQ(make_logit_rules({.repetition_penalty = 1.2, .no_repeat_ngram = 3}).size(), 2u);
}

TEST(Rules, TheCallersOwnComeFirst) {
  const LogitRule own = [](Candidates& candidates, std::span<const int64_t>) { candidates[0].logit = 9; };
  const auto rules = make_logit_rules({.temperature = 1, .top_k = 1, .rules = {own}});
  ASSERT_EQ(rules.size(), 2u);
  Candidates candidates = from_logits({1, 2});
  for (const auto& rule : rules) rule(candidates, {});
  EXPECT_EQ(ids(candidates), (std::vector{0}));
}

}  // namespace
}  // namespace fovea
