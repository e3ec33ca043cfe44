// Schedules: their values at the places that matter, and that they are functions of the step alone.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/error.h"

namespace fovea {
namespace {

double factor(const std::string& name, int64_t step, double min_ratio = 0, int64_t warmup = 10, int64_t steps = 110) {
  return schedule_factor({.name = name, .warmup = warmup, .min_ratio = min_ratio}, step, steps);
}

TEST(Schedule, WarmUpIsLinearAndBeginsAboveZero) {
  for (const char* name : {"constant", "linear", "cosine", "inverse_sqrt"}) {
    EXPECT_DOUBLE_EQ(factor(name, 0), 0.1);
    EXPECT_DOUBLE_EQ(factor(name, 4), 0.5);
    EXPECT_DOUBLE_EQ(factor(name, 9), 1);
    EXPECT_NEAR(factor(name, 10), name == std::string("inverse_sqrt") ? std::sqrt(10.0 / 11) : 1, 1e-12);
  }
}

TEST(Schedule, ValuesAfterTheWarmUp) {
  EXPECT_DOUBLE_EQ(factor("constant", 109), 1);
  EXPECT_DOUBLE_EQ(factor("linear", 60), 0.5);
  EXPECT_NEAR(factor("linear", 109), 0.01, 1e-12);
  EXPECT_DOUBLE_EQ(factor("linear", 60, 0.2), 0.6);
  EXPECT_NEAR(factor("cosine", 60), 0.5, 1e-12);
  EXPECT_NEAR(factor("cosine", 35), 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(factor("cosine", 60, 0.2), 0.6, 1e-12);
  EXPECT_NEAR(factor("cosine", 110, 0.2), 0.2, 1e-12);
  EXPECT_NEAR(factor("inverse_sqrt", 39), 0.5, 1e-12);
  EXPECT_NEAR(factor("inverse_sqrt", 39, 0.7), 0.7, 1e-12);
}

TEST(Schedule, BeyondTheEndTheFloorStays) {
  EXPECT_DOUBLE_EQ(factor("linear", 500, 0.3), 0.3);
  EXPECT_DOUBLE_EQ(factor("cosine", 500, 0.3), 0.3);
}

TEST(Schedule, NoWarmUpAndOnlyWarmUp) {
  EXPECT_DOUBLE_EQ(factor("cosine", 0, 0, 0), 1);
  EXPECT_DOUBLE_EQ(factor("inverse_sqrt", 0, 0, 0), 1);
  EXPECT_DOUBLE_EQ(factor("inverse_sqrt", 3, 0, 0), 0.5);
  EXPECT_DOUBLE_EQ(factor("linear", 4, 0, 10, 5), 0.5);
  EXPECT_DOUBLE_EQ(factor("linear", 10, 0, 10, 10), 1);
}

TEST(Schedule, BadSettingsAreNamed) {
  try {
    factor("cosin", 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_STREQ(error.what(), "schedule.name is \"cosin\"; did you mean \"cosine\"?");
  }
  EXPECT_THROW(factor("cosine", 0, 1.5), Error);
  EXPECT_THROW(factor("cosine", 0, 0, -1), Error);
  EXPECT_THROW(factor("cosine", -1), Error);
}

}  // namespace
}  // namespace fovea
