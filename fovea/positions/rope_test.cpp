// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/rope.h"

#include "tests/gradient_check.h"

namespace fovea {
namespace {

// One vector at one position.
torch::Tensor turn(const Position& rope, const torch::Tensor& x, int64_t position) {
  const auto q = x.view({1, 1, 1, -1});
  return rope->rotate(q, q, Positions(position)).first.flatten();
}

// Halves pairs channel i with i + R/2: from channel 1 of width 32, channel 1 shows the cosine, channel 17 the sine.
TEST(Rope, AnglesAreExactAtLargePositionsWhateverTheType) {
  const auto rope = make_position("rope", {.head_width = 32});
  const double angle = 1857 * std::pow(10000.0, -2.0 / 32);
  EXPECT_NEAR(angle, 1044.2678, 1e-4);
  rope->to(torch::kBFloat16);
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto unit = torch::zeros({32}).index_fill_(0, torch::tensor({1}), 1).to(type);
    const auto y = turn(rope, unit, 1857);
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_NEAR(y[1].item<double>(), 0.3067, type == torch::kBFloat16 ? 1e-3 : 1e-4);
    const auto rounded = torch::tensor({std::cos(angle)}, torch::kDouble).to(type)[0].item<double>();
    EXPECT_NEAR(y[1].item<double>(), rounded, 1e-7);
    EXPECT_NEAR(y[17].item<double>(), std::sin(angle), type == torch::kBFloat16 ? 4e-3 : 5e-4);
  }
}

TEST(Rope, TheTwoLayoutsPairOtherChannels) {
  const auto x = torch::tensor({1.0, 2.0, 3.0, 4.0}, torch::kDouble);
  const double c = std::cos(1.0), s = std::sin(1.0), c2 = std::cos(0.01), s2 = std::sin(0.01);
  const auto interleaved = turn(make_position("rope", {.head_width = 4, .layout = "interleaved"}), x, 1);
  EXPECT_TRUE(torch::allclose(interleaved,
                              torch::tensor({c - 2 * s, s + 2 * c, 3 * c2 - 4 * s2, 3 * s2 + 4 * c2}, torch::kDouble)));
  const auto halves = turn(make_position("rope", {.head_width = 4}), x, 1);
  EXPECT_TRUE(
      torch::allclose(halves, torch::tensor({c - 3 * s, 2 * c2 - 4 * s2, s + 3 * c, 2 * s2 + 4 * c2}, torch::kDouble)));
}

TEST(Rope, PermutedRowsChangeTheLayoutAndKeepTheScores) {
  const int64_t H = 4, G = 2, D = 8, T = 5;
  for (const int64_t rotary : {0, 4}) {
    const auto interleaved = make_position("rope", {.head_width = D, .layout = "interleaved", .rotary_width = rotary});
    const auto halves = make_position("rope", {.head_width = D, .layout = "halves", .rotary_width = rotary});
    const auto x = torch::randn({1, T, 16}), wq = torch::randn({H * D, 16}), wk = torch::randn({G * D, 16});
    const auto scores = [&](const Position& rope, const torch::Tensor& q_rows, const torch::Tensor& k_rows) {
      const auto q = torch::linear(x, q_rows).view({1, T, H, D}).transpose(1, 2);
      const auto k = torch::linear(x, k_rows).view({1, T, G, D}).transpose(1, 2);
      const auto [a, b] = rope->rotate(q, k, Positions(0));
      return torch::matmul(a, b.repeat_interleave(H / G, 1).transpose(2, 3));
    };
    const auto wanted = scores(interleaved, wq, wk);
    const auto got =
        scores(halves, rope::interleaved_to_halves(wq, H, rotary), rope::interleaved_to_halves(wk, G, rotary));
    EXPECT_TRUE(torch::allclose(got, wanted, 1e-6, 1e-4));
    EXPECT_FALSE(torch::allclose(scores(halves, wq, wk), wanted, 1e-2, 1e-2));
    EXPECT_TRUE(torch::equal(rope::halves_to_interleaved(rope::interleaved_to_halves(wq, H, rotary), H, rotary), wq));
  }
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const auto rope = make_position("rope", {.head_width = 16});
  const auto q = torch::randn({16}, torch::kDouble), k = torch::randn({16}, torch::kDouble);
  const auto score = [&](int64_t at, int64_t from) {
    return torch::dot(turn(rope, q, at), turn(rope, k, from)).item<double>();
  };
  EXPECT_NEAR(score(7, 4), score(5003, 5000), 1e-9);
}

TEST(Rope, PartialWidthLeavesTheOtherChannels) {
  const auto rope = make_position("rope", {.head_width = 10, .rotary_width = 4});
  const auto x = torch::randn({10}, torch::kDouble);
  const auto y = turn(rope, x, 3);
  EXPECT_TRUE(torch::equal(y.slice(0, 4), x.slice(0, 4)));
  EXPECT_TRUE(torch::allclose(y.slice(0, 0, 4), turn(make_position("rope", {.head_width = 4}), x.slice(0, 0, 4), 3)));
}

TEST(Rope, NarrowTypesAreRoundedOnce) {
  for (const char* layout : {"halves", "interleaved"}) {
    const auto rope = make_position("rope", {.head_width = 16, .layout = layout});
    const auto q = torch::randn({2, 3, 5, 16}).to(torch::kBFloat16);
    const auto narrow = rope->rotate(q, q, Positions(257)).first;
    const auto wide = rope->rotate(q.to(torch::kFloat), q.to(torch::kFloat), Positions(257)).first;
    EXPECT_TRUE(torch::equal(narrow, wide.to(torch::kBFloat16)));
  }
}

TEST(Rope, IdsEqualRuns) {
  const auto rope = make_position("rope", {.head_width = 8});
  const auto q = torch::randn({2, 3, 4, 8}), k = torch::randn({2, 1, 4, 8});
  for (const int64_t first : {0, 9, 2046, 100000}) {  // inside the table, across its end, beyond
    const auto ids = torch::arange(first, first + 4, torch::kLong);
    const auto [a, b] = rope->rotate(q, k, Positions(first));
    const auto [c, d] = rope->rotate(q, k, Positions(ids));
    const auto [e, f] = rope->rotate(q, k, Positions(ids.expand({2, 4})));
    for (const auto& other : {c, e}) EXPECT_TRUE(torch::allclose(a, other, 1e-6, 1e-6));
    for (const auto& other : {d, f}) EXPECT_TRUE(torch::allclose(b, other, 1e-6, 1e-6));
  }
}

TEST(Rope, Gradients) {
  for (const char* layout : {"halves", "interleaved"}) {
    const auto rope = make_position("rope", {.head_width = 6, .layout = layout, .rotary_width = 4});
    const auto q = f64_input({1, 2, 3, 6}), k = f64_input({1, 1, 3, 6}, 0.5);
    expect_gradients(
        [&] {
          const auto [a, b] = rope->rotate(q, k, Positions(2));
          return a * b;
        },
        {q, k});
  }
}

// The angle by which pair `pair` turns from one position to the next, read off a rotation.
double turn_of(const PositionOptions& options, int64_t pair, int64_t position = 1) {
  const int64_t half = options.head_width / 2;
  const auto unit = torch::zeros({options.head_width}, torch::kDouble).index_fill_(0, torch::tensor({pair}), 1);
  const auto y = turn(make_position("rope", options), unit, position);
  return std::atan2(y[half + pair].item<double>(), y[pair].item<double>());
}

TEST(Rope, LinearScalingDividesEveryAngle) {
  const PositionOptions plain{.head_width = 8, .base = 100},
      scaled{.head_width = 8, .base = 100, .scaling = {.type = "linear", .factor = 4}};
  for (int64_t pair = 0; pair < 4; ++pair) EXPECT_NEAR(turn_of(scaled, pair), turn_of(plain, pair) / 4, 1e-12);
}

TEST(Rope, DynamicScalingStretchesTheBaseOfLongTextsOnly) {
  const PositionOptions o{
      .head_width = 8, .base = 100, .scaling = {.type = "dynamic", .factor = 2, .original_positions = 16}};
  const auto rope = make_position("rope", o), plain = make_position("rope", {.head_width = 8, .base = 100});
  const auto x = torch::randn({1, 1, 24, 8}, torch::kDouble);
  const auto rotated = [&](const Position& by, int64_t length) {
    const auto part = x.slice(2, 0, length);
    return by->rotate(part, part, Positions(0)).first;
  };
  EXPECT_TRUE(torch::equal(rotated(rope, 16), rotated(plain, 16)));
  // 24 tokens: base 100 · (2 · 24 / 16 − 1)^(8 / 6) = 100 · 2^(4/3) = 251.98421
  const auto stretched = make_position("rope", {.head_width = 8, .base = 251.98420997897464});
  EXPECT_TRUE(torch::allclose(rotated(rope, 24), rotated(stretched, 24), 1e-9, 1e-9));
  // The largest position tells the length, given as ids too.
  const auto ids = torch::arange(24, torch::kLong);
  EXPECT_TRUE(torch::allclose(rope->rotate(x, x, ids).first, rotated(rope, 24), 1e-12, 1e-12));
}

// Turns within 128 positions, base 10⁴, 16 channels: 20.4, 6.44, 2.04, 0.644, …; kept above 4, divided below 1,
// between: share (2.04 − 1) / 3.
TEST(Rope, Llama3ScalingKeepsFastPairsAndDividesSlowOnes) {
  const PositionOptions plain{.head_width = 16},
      scaled{.head_width = 16, .scaling = {.type = "llama3", .factor = 8, .original_positions = 128}};
  const double share = (128 * std::pow(10.0, -1) / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(share, 0.3457, 1e-4);
  const double wanted[] = {1, 1, share + (1 - share) / 8, 1.0 / 8, 1.0 / 8};
  for (int64_t pair = 0; pair < 5; ++pair)
    EXPECT_NEAR(turn_of(scaled, pair), turn_of(plain, pair) * wanted[pair], 1e-12) << pair;
}

// Pairs that turn 32 times and once within 4096 positions, base 10⁴, 16 channels: 2.62 and 5.63, rounded 2 and 6, so
// the blend divides 0, ¼, ½, ¾ of pairs 2, 3, 4, 5; cosine and sine grow by 0.1 ln 4 + 1.
TEST(Rope, YarnBlends) {
  const PositionOptions plain{.head_width = 16},
      scaled{.head_width = 16, .scaling = {.type = "yarn", .factor = 4, .original_positions = 4096}};
  const double divided[] = {0, 0, 0, 0.25, 0.5, 0.75, 1, 1};
  for (int64_t pair = 0; pair < 8; ++pair)
    EXPECT_NEAR(turn_of(scaled, pair), turn_of(plain, pair) * (1 - divided[pair] * 0.75), 1e-12) << pair;
  const auto x = torch::ones({16}, torch::kDouble);
  const auto grown = [&](RopeScaling by) {
    by.type = "yarn", by.factor = 4, by.original_positions = 4096;
    return (turn(make_position("rope", {.head_width = 16, .scaling = by}), x, 7).norm() / x.norm()).item<double>();
  };
  EXPECT_NEAR(grown({}), 1.138629436, 1e-9);
  EXPECT_NEAR(grown({.attention_factor = 1.5}), 1.5, 1e-12);
  EXPECT_NEAR(grown({.mscale = 0.5, .mscale_all = 2}), (0.05 * std::log(4) + 1) / (0.2 * std::log(4) + 1), 1e-12);
  EXPECT_NEAR(grown({.mscale = 0.5}), 1.138629436, 1e-9);
}

TEST(Rope, ScalingErrors) {
  const auto says = [](const RopeScaling& scaling, const char* part) {
    const auto message = error_of([&] { make_position("rope", {.head_width = 8, .scaling = scaling}); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says({.type = "yarm"}, "did you mean \"yarn\"");
  says({.type = "linear", .factor = 0.5}, "factor is 0.5");
  says({.type = "linear", .factor = NAN}, "factor is nan");
  for (const char* type : {"dynamic", "yarn", "llama3"}) says({.type = type, .factor = 2}, "original_positions is 0");
  says({.type = "llama3", .original_positions = 8, .low_frequency = 4}, "high_frequency > low_frequency");
  says({.type = "yarn", .original_positions = 8, .beta_fast = 1, .beta_slow = 2}, "beta_fast >= beta_slow");
  says({.type = "yarn", .original_positions = 8, .attention_factor = -1}, "attention_factor is -1");
  for (const double bad : {double(INFINITY), double(NAN)})
    says({.type = "yarn", .original_positions = 8, .attention_factor = bad}, "attention_factor is ");
  for (const double bad : {-1.0, double(INFINITY), double(NAN)}) {
    says({.type = "yarn", .original_positions = 8, .mscale = bad, .mscale_all = 1}, "mscale is ");
    says({.type = "yarn", .original_positions = 8, .mscale = 1, .mscale_all = bad}, "mscale_all is ");
  }
  EXPECT_NE(error_of([] {
              make_position("rope", {.head_width = 2, .scaling = {.type = "dynamic", .original_positions = 8}});
            }).find("at least two"),
            std::string::npos);
}

TEST(Rope, Errors) {
  EXPECT_NE(error_of([] { make_position("rope", {.head_width = 5}); }).find("rotary_width is 5"), std::string::npos);
  EXPECT_NE(
      error_of([] { make_position("rope", {.head_width = 4, .rotary_width = 6}); }).find("up to the head width 4"),
      std::string::npos);
  EXPECT_NE(
      error_of([] { make_position("rope", {.head_width = 4, .layout = "halve"}); }).find("did you mean \"halves\""),
      std::string::npos);
  for (const double base : {0.0, -1.0, double(NAN), double(INFINITY)})
    for (const char* name : {"rope", "sinusoidal"})
      EXPECT_NE(error_of([&] { make_position(name, {.width = 4, .head_width = 4, .base = base}); }).find("base is "),
                std::string::npos);
  for (const int64_t width : {-2, 3, 6})
    EXPECT_NE(error_of([&] {
                rope::interleaved_to_halves(torch::ones({8, 3}), 2, width);
              }).find("rotary width is "),
              std::string::npos);
  const auto rope = make_position("rope", {.head_width = 4});
  const auto wrong = torch::ones({1, 1, 1, 8});
  EXPECT_NE(error_of([&] { rope->rotate(wrong, wrong, Positions(0)); }).find("made for 4"), std::string::npos);
}

}  // namespace
}  // namespace fovea
