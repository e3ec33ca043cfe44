// Misspelt names get the nearest known one, or a list that stays short.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/nearest.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(Nearest, IsTheOneWithTheFewestEdits) {
  EXPECT_EQ(nearest("trian", {"tokenize", "train", "env"}), "train");
  EXPECT_EQ(nearest("xyzzy", {"tokenize", "train"}), "");
  EXPECT_EQ(nearest("a", {}), "");
}

TEST(Nearest, SuggestionsNameItOrListWhatIsKnown) {
  EXPECT_EQ(suggestion("trian", {"tokenize", "train"}), "; did you mean \"train\"?");
  EXPECT_EQ(suggestion("xyzzy", {"tokenize", "train"}), "; known: tokenize, train");
  const std::string many = suggestion("xyzzy", std::vector<std::string>(100, "layers.0.weight"));
  EXPECT_TRUE(many.ends_with("layers.0.weight, …"));
  EXPECT_LT(many.size(), 800u);
}

}  // namespace
}  // namespace fovea
