// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/position.h"

#include "fovea/ops/attention.h"
#include "fovea/positions/alibi.h"
#include "fovea/positions/grid_2d.h"
#include "fovea/positions/learned.h"
#include "fovea/positions/registry.h"
#include "fovea/positions/relative_keys.h"
#include "fovea/positions/t5_bias.h"
#include "fovea/positions/xl_relative.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

PositionOptions sizes() { return {.width = 8, .heads = 2, .head_width = 4, .max_positions = 16}; }

// The bias that an encoding adds, read off the weights of attention over keys that are all alike: [H, T, S], up to a
// constant per row, chosen so that the newest key has 0.
torch::Tensor bias_of(const PositionImpl& position, int64_t T, int64_t S) {
  const int64_t H = position.options().heads;
  const auto options = torch::TensorOptions(torch::kDouble);
  const auto weights = attention_detailed(torch::zeros({1, H, T, 4}, options), torch::zeros({1, H, S, 4}, options),
                                          torch::zeros({1, H, S, 4}, options), {.score = position.score(T, S)})
                           .weights;
  const auto logs = weights.log().squeeze(0);
  return logs - logs.slice(-1, S - 1);
}

TEST(Positions, EveryEncodingKeepsShapesAndTypes) {
  for (const auto& name : positions_registry().names()) {
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
      const auto position = make_position(name, sizes());
      position->to(type);
      const auto x = torch::randn({3, 5, 8}).to(type), q = torch::randn({3, 2, 5, 4}).to(type),
                 k = torch::randn({3, 1, 5, 4}).to(type);
      for (const Positions& at : {Positions(2), Positions(torch::arange(5, torch::kLong)),
                                  Positions(torch::arange(15, torch::kLong).view({3, 5}))}) {
        const auto embedded = position->embed(x, at);
        EXPECT_EQ(embedded.sizes(), x.sizes()) << name;
        EXPECT_EQ(embedded.scalar_type(), type) << name;
        const auto pass = position->prepare(at, 5, 5, x.options());
        const auto [turned_q, turned_k] = position->rotate(q, k, pass.tables);
        EXPECT_EQ(turned_q.sizes(), q.sizes()) << name;
        EXPECT_EQ(turned_k.sizes(), k.sizes()) << name;
        EXPECT_EQ(turned_k.scalar_type(), type) << name;
      }
    }
  }
}

TEST(Positions, ASequenceLongerThanThePositionsIsAnErrorWithAdvice) {
  for (const auto& name : positions_registry().names()) {
    const auto position = make_position(name, sizes());
    const auto like = torch::TensorOptions(torch::kFloat);
    EXPECT_EQ(position->max_positions(), 16);
    EXPECT_EQ(error_of([&] { position->prepare(Positions(11), 5, 16, like); }), "") << name;
    const auto message = error_of([&] { position->prepare(Positions(12), 5, 17, like); });
    EXPECT_NE(message.find("a sequence of 17 tokens does not fit the 16 positions"), std::string::npos) << message;
    EXPECT_NE(message.find("max_positions >= 17"), std::string::npos) << message;
    EXPECT_NE(error_of([&] {
                position->prepare(torch::tensor({3, 16}, torch::kLong), 2, 2, like);
              }).find("17 tokens"),
              std::string::npos);
    EXPECT_NE(error_of([&] {
                position->prepare(torch::tensor({-1, 3}, torch::kLong), 2, 2, like);
              }).find("position -1"),
              std::string::npos);
    EXPECT_NE(error_of([&] { position->prepare(torch::ones({3}, torch::kLong), 2, 2, like); }).find("T = 2"),
              std::string::npos);
  }
  EXPECT_NE(error_of([] { make_position("ropes", sizes()); }).find("did you mean \"rope\""), std::string::npos);
  EXPECT_NE(error_of([] { make_position("learned", {.width = 8}); }).find("a table needs its length"),
            std::string::npos);
}

TEST(Positions, LeftPaddingCountsRealTokens) {
  const auto at = Positions::after_padding(torch::tensor({0, 2}, torch::kLong), 4);
  EXPECT_TRUE(torch::equal(at.ids, torch::tensor({{0, 1, 2, 3}, {0, 0, 0, 1}}, torch::kLong)));
  const auto later = Positions::after_padding(torch::tensor({0, 2}, torch::kLong), 1, 4);
  EXPECT_TRUE(torch::equal(later.ids, torch::tensor({{4}, {2}}, torch::kLong)));
}

TEST(Sinusoidal, EqualsTheFormula) {
  const auto x = torch::zeros({1, 2, 4}, torch::kDouble);
  const auto paper = make_position("sinusoidal", {.width = 4})->embed(x, {});
  EXPECT_TRUE(torch::equal(paper[0][0], torch::tensor({0, 1, 0, 1}, torch::kDouble)));
  EXPECT_TRUE(torch::allclose(
      paper[0][1], torch::tensor({std::sin(1.0), std::cos(1.0), std::sin(0.01), std::cos(0.01)}, torch::kDouble)));
  const auto halves = make_position("sinusoidal", {.width = 4, .layout = "halves"})->embed(x, {});
  EXPECT_TRUE(torch::allclose(
      halves[0][1], torch::tensor({std::sin(1.0), std::sin(0.01), std::cos(1.0), std::cos(0.01)}, torch::kDouble)));
  EXPECT_NE(error_of([] { make_position("sinusoidal", {.width = 5}); }).find("wanted an even number"),
            std::string::npos);
}

TEST(Sinusoidal, FarPositionsAreExact) {
  const auto y = make_position("sinusoidal", {.width = 4})->embed(torch::zeros({1, 1, 4}), Positions(100001));
  EXPECT_NEAR(y[0][0][0].item<double>(), std::sin(100001.0), 1e-6);
}

TEST(Learned, ReadsItsRowsAfterTheOffset) {
  auto options = sizes();
  options.offset = 2;
  LearnedPositionImpl learned(options);
  ASSERT_EQ(learned.weight.size(0), 18);
  const auto x = torch::zeros({2, 3, 8});
  EXPECT_TRUE(torch::equal(learned.embed(x, Positions(4))[1], learned.weight.slice(0, 6, 9)));
  const auto ids = torch::tensor({{0, 0, 1}, {5, 3, 15}}, torch::kLong);
  EXPECT_TRUE(torch::equal(learned.embed(x, ids)[1][2], learned.weight[17]));
  // With an offset, row −1 + 2 exists; position −1 does not.
  EXPECT_NE(error_of([&] {
              learned.embed(x, torch::tensor({-1, 0, 1}, torch::kLong));
            }).find("position -1"),
            std::string::npos);
}

TEST(Learned, Gradients) {
  LearnedPositionImpl learned({.width = 3, .max_positions = 5});
  const auto x = f64_input({2, 2, 3});
  const auto leaves = f64_leaves(learned, {x});
  expect_gradients([&] { return learned.embed(x, Positions(1)).tanh(); }, leaves);
  expect_gradients([&] { return learned.embed(x, torch::tensor({{0, 4}, {2, 2}}, torch::kLong)).tanh(); }, leaves);
}

TEST(Alibi, SlopesFollowThePaperAlsoBetweenPowersOfTwo) {
  const auto expect = [](int64_t heads, const std::vector<double>& exponents) {
    const auto wanted = torch::pow(2.0, torch::tensor(exponents, torch::kDouble));
    EXPECT_TRUE(torch::allclose(alibi_slopes(heads).to(torch::kDouble), wanted, 1e-6)) << heads;
  };
  expect(1, {-8});
  expect(8, {-1, -2, -3, -4, -5, -6, -7, -8});
  expect(12, {-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5});
  expect(3, {-4, -8, -2});
  EXPECT_NE(error_of([] { alibi_slopes(0); }).find("heads is 0"), std::string::npos);
}

TEST(Alibi, SlopesMayLearn) {
  AlibiPositionImpl fixed({.heads = 3}), learned({.heads = 3, .learned_slopes = true});
  EXPECT_TRUE(fixed.parameters().empty());
  ASSERT_EQ(learned.parameters().size(), 1u);
  EXPECT_TRUE(torch::equal(bias_of(fixed, 2, 5), bias_of(learned, 2, 5)));
  const auto leaves = f64_leaves(learned);
  const auto q = f64_input({1, 3, 4, 2}), k = f64_input({1, 3, 6, 2}, 1), v = f64_input({1, 3, 6, 2}, 2);
  expect_gradients([&] { return attention(q, k, v, {.score = learned.score(4, 6)}); }, leaves);
}

TEST(Alibi, PenaltyGrowsWithTheDistanceToTheNewestKey) {
  AlibiPositionImpl alibi({.heads = 8});
  const auto bias = bias_of(alibi, 1, 5);
  for (int64_t k = 0; k < 5; ++k) {
    EXPECT_NEAR(bias[0][0][k].item<double>(), -0.5 * double(4 - k), 1e-9);
    EXPECT_NEAR(bias[7][0][k].item<double>(), -double(4 - k) / 256, 1e-9);
  }
}

// Table row i holds i: the bias is the bucket.
T5BiasPositionImpl numbered(bool bidirectional) {
  T5BiasPositionImpl t5({.heads = 1, .bidirectional = bidirectional});
  const torch::NoGradGuard no_grad;
  t5.weight.copy_(torch::arange(32).unsqueeze(1));
  return t5;
}

TEST(T5Bias, BucketsOfBothDirections) {
  const std::vector<int64_t> distances = {-200, -20, -8, -1, 0, 1, 8, 20, 200};
  const std::vector<int64_t> two_sided = {15, 10, 8, 1, 0, 17, 24, 26, 31}, one_sided = {31, 17, 8, 1, 0, 0, 0, 0, 0};
  const int64_t T = 401, middle = 200;
  for (const bool bidirectional : {true, false}) {
    const auto row = bias_of(numbered(bidirectional), T, T)[0][middle];
    const auto relative = row - row[middle];  // distance 0 is bucket 0
    for (size_t i = 0; i < distances.size(); ++i) {
      const int64_t wanted = bidirectional ? two_sided[i] : one_sided[i];
      EXPECT_NEAR(relative[middle + distances[i]].item<double>(), double(wanted), 1e-6) << distances[i];
    }
  }
}

TEST(T5Bias, TheNewestKeyHasDistanceZero) {
  const auto bias = bias_of(numbered(false), 1, 5)[0][0];
  EXPECT_TRUE(torch::allclose(bias, torch::tensor({4, 3, 2, 1, 0}, torch::kDouble)));
}

// Numbers and gradients are held against the papers' definitions in tests/parity/test_positions.py.
TEST(RelativeKeys, FarDistancesShareAVector) {
  auto position = std::make_shared<RelativeKeysPositionImpl>(PositionOptions{.head_width = 2, .reach = 3});
  EXPECT_EQ(position->weight.sizes(), (std::vector<int64_t>{7, 2}));
  EXPECT_EQ(RelativeKeysPositionImpl({.head_width = 2}).weight.size(0), 33);
  EXPECT_NE(error_of([] { RelativeKeysPositionImpl({.head_width = 2, .reach = -1}); }).find("reach is -1"),
            std::string::npos);
  EXPECT_NE(error_of([] { RelativeKeysPositionImpl({}); }).find("head_width is 0"), std::string::npos);
}

TEST(XlRelative, OneTokenAndNoneAreTexts) {
  const XlRelativePositionImpl xl({.width = 6, .heads = 2, .head_width = 4});
  const auto x = torch::ones({1, 2, 1, 4});
  EXPECT_TRUE(torch::allclose(attention(x, x, x, {.score = xl.score(1, 1)}), x));
  for (const auto& [T, S] : {std::pair{0, 0}, {0, 3}, {2, 0}, {1, 4}, {4, 2}})
    EXPECT_EQ(attention(torch::ones({1, 2, T, 4}), torch::ones({1, 2, S, 4}), torch::ones({1, 2, S, 4}),
                        {.score = xl.score(T, S)})
                  .sizes(),
              (std::vector<int64_t>{1, 2, T, 4}));
  EXPECT_NE(error_of([] { XlRelativePositionImpl({.width = 5, .heads = 1, .head_width = 4}); }).find("an even number"),
            std::string::npos);
  EXPECT_NE(error_of([] { XlRelativePositionImpl({.width = 4, .head_width = 4}); }).find("heads is 0"),
            std::string::npos);
}

// Rows and columns never swap, cells of another grid are laid on the one that was learned, class tokens have no place.
TEST(Grid2d, CoordinatesOfCells) {
  const auto at = [](const Positions& positions, int64_t T, std::vector<int64_t> onto = {}) {
    return cell_coordinates(positions, T, onto, torch::kCPU);
  };
  const auto wanted = torch::tensor({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}, torch::kDouble);
  EXPECT_TRUE(torch::equal(at(CellGrid{2, 3}, 6), wanted));
  EXPECT_TRUE(torch::equal(at(CellGrid{2, 3}, 6, {2, 3}), wanted));
  EXPECT_TRUE(torch::allclose(at(CellGrid{4, 1}, 4, {2, 3}),
                              torch::tensor({{-0.25, 1.0}, {0.25, 1.0}, {0.75, 1.0}, {1.25, 1.0}}, torch::kDouble)));
  EXPECT_TRUE(torch::equal(at(Positions(3), 2), torch::tensor({{0, 3}, {0, 4}}, torch::kDouble)));
  EXPECT_EQ(at(torch::zeros({5, 2}, torch::kLong), 2).sizes(), (std::vector<int64_t>{5, 2, 2}));
}

TEST(Grid2d, ClassTokensAreUntouched) {
  const auto x = torch::randn({2, 8, 8});
  const auto waves = make_position("sinusoidal_2d", {.width = 8})->embed(x, CellGrid{2, 3, 2}) - x;
  EXPECT_TRUE(waves.slice(1, 0, 2).eq(0).all().item<bool>());
  // Channels of the row are the same along a row, those of the column along a column.
  const auto cells = waves[0].slice(0, 2).view({2, 3, 8});
  EXPECT_TRUE(torch::allclose(cells.slice(2, 0, 4).slice(1, 1), cells.slice(2, 0, 4).slice(1, 0, 1).expand({2, 2, 4}),
                              1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(cells.slice(2, 4).slice(0, 1), cells.slice(2, 4).slice(0, 0, 1), 1e-5, 1e-6));
  const auto q = torch::randn({1, 2, 8, 4});
  const auto turned = make_position("rope_2d", {.head_width = 4})->rotate(q, q, CellGrid{2, 3, 2}).first;
  EXPECT_TRUE(torch::equal(turned.slice(2, 0, 2), q.slice(2, 0, 2)));
  EXPECT_FALSE(torch::allclose(turned.slice(2, 3), q.slice(2, 3)));
}

TEST(Grid2d, Errors) {
  const auto like = torch::TensorOptions(torch::kFloat);
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  for (const char* name : {"sinusoidal_2d", "rope_2d"}) {
    says(error_of([&] { make_position(name, {.width = 6, .head_width = 6}); }), "wanted a multiple of 4");
    says(error_of([&] { make_position(name, {.width = 8, .head_width = 8, .grid = {2}}); }), "grid is [2], wanted rows and columns");
    says(error_of([&] { make_position(name, {.width = 8, .head_width = 8, .grid = {0, 3}}); }),
         "grid is [0, 3], wanted rows and columns of at least 1 each, or none");
    const auto position = make_position(name, {.width = 8, .head_width = 8});
    says(error_of([&] {
           position->prepare(CellGrid{2, 3, 1}, 6, 6, like);
         }),
         "a grid of 2 x 3 cells behind 1 tokens, wanted T = 6");
    for (const CellGrid& wide : {CellGrid{int64_t{1} << 33, int64_t{1} << 31, 6}, CellGrid{INT64_MAX, 1, INT64_MAX}})
      says(error_of([&] { position->prepare(wide, 6, 6, like); }), "wanted T = 6");
  }
}

TEST(T5Bias, Gradients) {
  T5BiasPositionImpl t5({.heads = 2, .buckets = 8, .max_distance = 8, .bidirectional = true});
  const auto leaves = f64_leaves(t5);
  const auto q = f64_input({1, 2, 4, 3}), k = f64_input({1, 2, 4, 3}, 1), v = f64_input({1, 2, 4, 3}, 2);
  expect_gradients([&] { return attention(q, k, v, {.score = t5.score(4, 4)}); }, leaves);
}

}  // namespace
}  // namespace fovea
