// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fovea {
namespace {

const Candidates kThree{{2, std::log(0.1f)}, {5, std::log(0.2f)}, {9, std::log(0.7f)}};

TEST(Sampler, BestTakesTheLowerIdAmongEquals) {
  EXPECT_EQ(best_candidate(kThree).id, 9);
  EXPECT_EQ(best_candidate({{1, 2.f}, {4, 3.f}, {6, 3.f}}).id, 4);
}

TEST(Sampler, DrawInvertsTheDistributionInOrderOfId) {
  EXPECT_EQ(draw_candidate(kThree, 0).id, 2);
  EXPECT_EQ(draw_candidate(kThree, 0.0999).id, 2);
  EXPECT_EQ(draw_candidate(kThree, 0.1001).id, 5);
  EXPECT_EQ(draw_candidate(kThree, 0.2999).id, 5);
  EXPECT_EQ(draw_candidate(kThree, 0.3001).id, 9);
  EXPECT_EQ(draw_candidate(kThree, std::nextafter(1.0, 0.0)).id, 9);
}

TEST(Sampler, NeverDrawsWhatHasNoProbability) {
  const Candidates candidates{{0, -INFINITY}, {1, 0.f}, {2, -INFINITY}};
  EXPECT_EQ(draw_candidate(candidates, 0).id, 1);
  EXPECT_EQ(draw_candidate(candidates, std::nextafter(1.0, 0.0)).id, 1);
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  std::vector<int> count(10);
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++count[draw_candidate(kThree, draw_uniform(7, i)).id];
  // Four standard deviations of a binomial.
  for (const auto& [id, p] : std::vector<std::pair<int, double>>{{2, 0.1}, {5, 0.2}, {9, 0.7}})
    EXPECT_NEAR(count[id], draws * p, 4 * std::sqrt(draws * p * (1 - p))) << id;
}

TEST(Sampler, UniformIsAFunctionOfSeedAndStep) {
  EXPECT_EQ(draw_uniform(1, 2), draw_uniform(1, 2));
  EXPECT_NE(draw_uniform(1, 2), draw_uniform(1, 3));
  EXPECT_NE(draw_uniform(1, 2), draw_uniform(2, 2));
  EXPECT_NE(draw_uniform(1, 2), draw_uniform(1, 2 + (uint64_t{1} << 32)));
  EXPECT_NE(draw_uniform(1, 2), draw_uniform(1 + (uint64_t{1} << 32), 2));
  for (int i = 0; i < 1000; ++i) {
    const double u = draw_uniform(uint64_t(-1), uint64_t(-1) - i);
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
  }
}

TEST(Sampler, UniformStaysTheSameFromVersionToVersion) {
  EXPECT_DOUBLE_EQ(draw_uniform(0, 0), 0.6524476331182323);
  EXPECT_DOUBLE_EQ(draw_uniform(1234567890123, 5), 0.8641545694183039);
}

}  // namespace
}  // namespace fovea
