// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/beam_search.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/error.h"
#include "fovea/generate/toy_model_test.h"

namespace fovea {
namespace {

using Prompts = std::vector<std::vector<int64_t>>;

struct Found {
  std::vector<int64_t> tokens;
  double score;
};

// Every answer of at most `most` tokens, by definition: the full forward for each beginning. End token 0.
void enumerate(const ToyModelImpl& model, const std::vector<int64_t>& prompt, size_t most, double length_penalty,
               std::vector<int64_t>& tokens, double sum, std::vector<Found>& out) {
  if (!tokens.empty() && (tokens.back() == 0 || tokens.size() == most)) {
    out.push_back({tokens, sum / std::pow(double(tokens.size()), length_penalty)});
    return;
  }
  std::vector<int64_t> ids = prompt;
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  const Tensor logprobs = at::log_softmax(model.full(ids, model.begin()), 0);
  for (int64_t id = 0; id < model.vocab_size(); ++id) {
    tokens.push_back(id);
    enumerate(model, prompt, most, length_penalty, tokens, sum + logprobs[id].item<double>(), out);
    tokens.pop_back();
  }
}

std::vector<Found> exhaustive(const ToyModelImpl& model, const std::vector<int64_t>& prompt, size_t most,
                              double length_penalty) {
  std::vector<Found> out;
  std::vector<int64_t> tokens;
  enumerate(model, prompt, most, length_penalty, tokens, 0, out);
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  return out;
}

TEST(BeamSearch, AllBeginningsKeptIsExhaustiveSearch) {
  const ToyModelImpl model({.vocab = 4, .sharpness = 0.7});
  const Prompts prompts{{1, 2, 3}, {3}};
  for (const double length_penalty : {0.0, 1.0, 2.0, -1.0}) {
    const auto result = generate(model, prompts,
                                 {.max_new_tokens = 4,
                                  .beams = 256,
                                  .results = 6,
                                  .length_penalty = length_penalty,
                                  .beam_stop = "exact",
                                  .end_ids = {0}});
    ASSERT_EQ(result.rows.size(), 12u);
    for (size_t p = 0; p < prompts.size(); ++p) {
      const auto expected = exhaustive(model, prompts[p], 4, length_penalty);
      for (size_t i = 0; i < 6; ++i) {
        SCOPED_TRACE(testing::Message() << "penalty " << length_penalty << " prompt " << p << " result " << i);
        EXPECT_EQ(result.rows[6 * p + i].tokens, expected[i].tokens);
        EXPECT_NEAR(result.rows[6 * p + i].score, expected[i].score, 1e-5);
      }
    }
  }
}

TEST(BeamSearch, FindsWhatGreedyMisses) {
  // Searched for: a model where the best first token leads away from the best answer.
  for (uint64_t seed = 1; seed < 40; ++seed) {
    const ToyModelImpl model({.vocab = 5, .seed = seed});
    const auto greedy = generate(model, Prompts{{1}}, {.max_new_tokens = 3, .end_ids = {0}}).rows[0];
    const auto best = exhaustive(model, {1}, 3, 0)[0];
    if (greedy.tokens == best.tokens) continue;
    const auto beams =
        generate(model, Prompts{{1}},
                 {.max_new_tokens = 3, .beams = 25, .length_penalty = 0, .beam_stop = "exact", .end_ids = {0}});
    EXPECT_EQ(beams.rows[0].tokens, best.tokens);
    EXPECT_GT(beams.rows[0].score, greedy.score);
    return;
  }
  FAIL() << "no such model";
}

// Caches move with their beams: what a beam was scored with is what the full forward says of its tokens.
TEST(BeamSearch, ScoresEqualTheFullForward) {
  const ToyModelImpl model({.vocab = 7, .sharpness = 0.6});
  const Prompts prompts{{1, 2, 3}, {3}, {4, 5}};
  const auto result =
      generate(model, prompts, {.max_new_tokens = 8, .beams = 3, .results = 3, .length_penalty = 0.5, .end_ids = {0}});
  for (size_t row = 0; row < result.rows.size(); ++row) {
    const Generated& answer = result.rows[row];
    std::vector<int64_t> ids = prompts[row / 3];
    double sum = 0;
    for (size_t i = 0; i < answer.tokens.size(); ++i) {
      const Tensor logprobs = at::log_softmax(model.full(ids, model.begin()), 0);
      EXPECT_NEAR(answer.logprobs[i], logprobs[answer.tokens[i]].item<double>(), 1e-5);
      sum += answer.logprobs[i];
      ids.push_back(answer.tokens[i]);
    }
    EXPECT_NEAR(answer.score, sum / std::sqrt(double(answer.tokens.size())), 1e-5);
    if (row % 3 > 0) {
      EXPECT_LE(answer.score, result.rows[row - 1].score);
    }
  }
}

TEST(BeamSearch, BatchEqualsSingle) {
  for (const bool encoder : {false, true}) {
    const ToyModelImpl model({.vocab = 7, .positions = 10, .encoder = encoder, .sharpness = 0.6});
    const Prompts prompts{{1, 2, 3}, {3}, {4, 5, 1, 2, 3, 4}};
    for (const char* stop : {"estimate", "first", "exact"}) {
      const GenerateOptions options{.max_new_tokens = 9,
                                    .no_repeat_ngram = 2,
                                    .beams = 4,
                                    .results = 2,
                                    .beam_stop = stop,
                                    .end_ids = {0, 6},
                                    .start_id = 1};
      const auto batch = generate(model, prompts, options);
      for (size_t p = 0; p < prompts.size(); ++p) {
        const auto single = generate(model, {prompts[p]}, options);
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(batch.rows[2 * p + i].tokens, single.rows[i].tokens);
          EXPECT_EQ(batch.rows[2 * p + i].finish, single.rows[i].finish);
          EXPECT_NEAR(batch.rows[2 * p + i].score, single.rows[i].score, 1e-5);
        }
      }
    }
  }
}

TEST(BeamSearch, StopsAsItsOptionSays) {
  int64_t first_steps = 0, estimate_steps = 0, exact_steps = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ToyModelImpl model({.vocab = 6, .seed = seed, .sharpness = 0.5});
    const auto run = [&](const char* stop, int64_t& steps) {
      model.steps = 0;
      const auto result =
          generate(model, Prompts{{1, 2}}, {.max_new_tokens = 20, .beams = 3, .beam_stop = stop, .end_ids = {0}});
      steps += model.steps;
      return result.rows[0].score;
    };
    const double first = run("first", first_steps), estimate = run("estimate", estimate_steps),
                 exact = run("exact", exact_steps);
    EXPECT_LE(first, estimate + 1e-9);
    EXPECT_LE(estimate, exact + 1e-9);
  }
  EXPECT_LT(first_steps, exact_steps);
  EXPECT_LE(first_steps, estimate_steps);
  EXPECT_LE(estimate_steps, exact_steps);
}

TEST(BeamSearch, RulesCount) {
  const ToyModelImpl model({.vocab = 6});
  const auto result =
      generate(model, Prompts{{1, 4}}, {.max_new_tokens = 10, .no_repeat_ngram = 1, .beams = 4, .results = 4});
  for (const Generated& row : result.rows) {
    auto tokens = row.tokens;
    std::sort(tokens.begin(), tokens.end());
    EXPECT_EQ(tokens, (std::vector<int64_t>{0, 2, 3, 5}));
    EXPECT_EQ(row.finish, Finish::kExhausted);
  }
}

TEST(BeamSearch, MissingAnswersAreEmpty) {
  const ToyModelImpl model({.vocab = 3});
  const auto result = generate(model, Prompts{{1}}, {.max_new_tokens = 1, .beams = 5, .results = 5});
  ASSERT_EQ(result.rows.size(), 5u);
  EXPECT_EQ(result.rows[2].tokens.size(), 1u);
  EXPECT_TRUE(result.rows[3].tokens.empty());
  EXPECT_EQ(result.rows[3].score, -INFINITY);
  EXPECT_EQ(result.ids.sizes(), (at::IntArrayRef{5, 1}));
}

TEST(BeamSearch, HasNoCallback) {
  EXPECT_THROW(generate(ToyModelImpl({}), Prompts{{1}}, {.beams = 2}, nullptr, [](const TokenEvent&) { return true; }),
               Error);
}

// A forced token is certain: it costs a beam nothing, whatever the model thinks of it.
TEST(BeamSearch, ForcedTokensCostNothing) {
  const ToyModelImpl model({.vocab = 7, .encoder = true});
  const GenerateOptions options{.max_new_tokens = 4,
                                .min_new_tokens = 2,
                                .beams = 3,
                                .results = 3,
                                .length_penalty = 0,
                                .end_ids = {6},
                                .start_id = 0,
                                .forced_first = 5,
                                .forced_last = 6};
  for (const Generated& row : generate(model, std::vector<std::vector<int64_t>>{{1, 2, 3}}, options).rows) {
    ASSERT_GE(row.tokens.size(), 3u);
    EXPECT_EQ(row.tokens.front(), 5);
    EXPECT_EQ(row.tokens.back(), 6);
    double wanted = 0;
    for (size_t i = 1; i < row.tokens.size(); ++i)
      if (i < 3) wanted += row.logprobs[i];
    EXPECT_NEAR(row.score, wanted, 1e-5);
  }
}

}  // namespace
}  // namespace fovea
