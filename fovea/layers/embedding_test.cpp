// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/embedding.h"

#include "tests/gradient_check.h"

namespace fovea {
namespace {

TEST(Embedding, GivesTheRowsOfItsTable) {
  Embedding e({.vocabulary = 5, .width = 3});
  const auto ids = torch::tensor({{4, 0}, {2, 2}}, torch::kLong);
  const auto x = e->forward(ids);
  ASSERT_EQ(x.sizes(), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_TRUE(torch::equal(x[0][0], e->weight[4]));
  EXPECT_TRUE(torch::equal(x[1][1], e->weight[2]));
  EXPECT_EQ(e->forward(torch::empty({2, 0}, torch::kLong)).sizes(), (std::vector<int64_t>{2, 0, 3}));
}

TEST(Embedding, ScaleIsTheRootOfTheWidthAndLeavesLogitsAlone) {
  Embedding e({.vocabulary = 5, .width = 16, .scale = true});
  const auto ids = torch::arange(5, torch::kLong);
  EXPECT_TRUE(torch::allclose(e->forward(ids), 4 * e->weight));
  EXPECT_TRUE(torch::allclose(e->logits(torch::eye(16)), e->weight.t()));
}

TEST(Embedding, TiedTableGathersBothGradients) {
  Embedding e({.vocabulary = 4, .width = 3, .scale = true});
  const auto leaves = f64_leaves(*e);
  const auto ids = torch::tensor({{3, 1, 3}}, torch::kLong);
  expect_gradients([&] { return e->logits(e->forward(ids).tanh()); }, leaves);
}

TEST(Embedding, AnIdOutsideTheVocabularyIsNamed) {
  Embedding e({.vocabulary = 5, .width = 3});
  for (const bool flat : {true, false}) {
    const auto ids = flat ? torch::tensor({1, 5}, torch::kLong) : torch::tensor({{1, 5}}, torch::kLong);
    const auto message = error_of([&] { e->forward(ids); });
    EXPECT_NE(message.find("token id 5 at index 1 is outside the vocabulary of 5"), std::string::npos) << message;
  }
  EXPECT_NE(error_of([&] { e->forward(torch::tensor({-1}, torch::kLong)); }).find("token id -1"), std::string::npos);
  EXPECT_NE(error_of([&] { e->forward(torch::ones({2})); }).find("wanted Long or Int"), std::string::npos);
  EXPECT_NE(error_of([] { Embedding({.vocabulary = 0, .width = 3}); }).find("vocabulary is 0"), std::string::npos);
}

}  // namespace
}  // namespace fovea
