// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/norm.h"

#include "tests/gradient_check.h"

namespace fovea {
namespace {

TEST(Norm, LayerEqualsItsDefinition) {
  Norm norm({.width = 4, .eps = 0.25});
  const auto x = torch::tensor({1.f, 2.f, 3.f, 6.f});  // mean 3, variance 3.5
  EXPECT_TRUE(torch::allclose(norm->forward(x), (x - 3) / std::sqrt(3.75)));
  Norm bare({.width = 4, .bias = false});
  EXPECT_EQ(bare->parameters().size(), 1u);
  EXPECT_TRUE(torch::allclose(bare->forward(x), torch::layer_norm(x, {4})));
}

TEST(Norm, RmsEqualsItsDefinition) {
  Norm norm({.width = 2, .kind = "rms", .eps = 0});
  const auto y = norm->forward(torch::tensor({{3.f, 4.f}}));  // root mean square √12.5
  EXPECT_NEAR(y[0][0].item<float>(), 0.848528, 1e-6);
  EXPECT_NEAR(y[0][1].item<float>(), 1.131371, 1e-6);
  EXPECT_EQ(norm->parameters().size(), 1u);
}

TEST(Norm, StatisticsAreTakenInF32AndRoundedOnce) {
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    for (const char* kind : {"layer", "rms"}) {
      Norm norm({.width = 64, .kind = kind});
      const auto x = (torch::randn({3, 64}) * 3000).to(type);  // squares overflow f16
      const auto wide = norm->forward(x.to(torch::kFloat)).to(type);
      norm->to(type);
      const auto narrow = norm->forward(x);
      EXPECT_EQ(narrow.scalar_type(), type);
      EXPECT_TRUE(torch::equal(narrow, wide)) << kind;
    }
  }
}

TEST(Norm, Gradients) {
  for (const char* kind : {"layer", "rms"}) {
    Norm norm({.width = 5, .kind = kind});
    const auto x = f64_input({2, 3, 5});
    const auto leaves = f64_leaves(*norm, {x});
    expect_gradients([&] { return norm->forward(x); }, leaves);
  }
}

TEST(Norm, Errors) {
  EXPECT_NE(error_of([] { Norm({.width = 4, .kind = "rsm"}); }).find("did you mean \"rms\""), std::string::npos);
  EXPECT_NE(error_of([] { Norm({.width = 0}); }).find("width is 0"), std::string::npos);
  Norm norm({.width = 4});
  EXPECT_NE(error_of([&] { norm->forward(torch::ones({2, 3})); }).find("wanted [..., 4]"), std::string::npos);
  EXPECT_NE(error_of([&] {
              norm->forward(torch::ones({2, 4}, torch::kDouble));
            }).find("x is Double, wanted Float"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
