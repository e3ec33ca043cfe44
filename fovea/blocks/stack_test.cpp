// SPDX-License-Identifier: Apache-2.0
#include "fovea/blocks/stack.h"

#include <set>

#include "fovea/base/probe.h"
#include "fovea/masks/padding.h"
#include "fovea/masks/sliding_window.h"
#include "fovea/positions/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

Stack make_stack(StackOptions options) {
  at::manual_seed(3);
  Stack stack(std::move(options));
  stack->to(torch::kDouble);
  stack->eval();
  for (auto& item : stack->named_parameters())
    if (item.key().find("position") == 0) item.value().data().mul_(20);  // fresh tables are small
  return stack;
}

StackOptions decoder(const std::string& position, int64_t kv_heads = 0) {
  return {.layers = 2,
          .block = {.attention = {.width = 8, .heads = 2, .kv_heads = kv_heads}, .feed_forward = {.hidden = 12}},
          .position = position,
          .positions = {.max_positions = 16},
          .causal = true,
          .final_norm = true};
}

torch::Tensor some(torch::IntArrayRef sizes, double phase = 0) { return f64_input(sizes, phase).detach(); }
bool close(const torch::Tensor& a, const torch::Tensor& b) { return torch::allclose(a, b, 1e-9, 1e-9); }

TEST(Stack, CachedDecodingEqualsTheFullForward) {
  const torch::NoGradGuard no_grad;
  const auto x = some({2, 9, 8});
  for (const auto& position : positions_registry().names()) {
    for (const int64_t kv_heads : {2, 1}) {
      const auto stack = make_stack(decoder(position, kv_heads));
      const auto full = stack->forward(x);
      DecoderState state;
      int64_t done = 0;
      for (const int64_t count : {4, 1, 2, 1, 1}) {
        const auto y = stack->forward(x.slice(1, done, done + count), {.state = &state});
        EXPECT_TRUE(close(y, full.slice(1, done, done + count))) << position << " at " << done;
        done += count;
        EXPECT_EQ(state.length(), done);
      }
      state.crop(5);
      EXPECT_TRUE(close(stack->forward(x.slice(1, 5, 7), {.state = &state}), full.slice(1, 5, 7))) << position;
    }
  }
}

// Cases: huggingface/transformers #37574, mlx-lm #390. A window of 8 over prompts of 6 and single steps.
TEST(Stack, AWindowShowsExactlyItsNewestKeys) {
  const torch::NoGradGuard no_grad;
  StackOptions options = decoder("rope", 2);
  options.layers = 1;
  options.window = 8;
  const auto stack = make_stack(options);
  const auto x = some({2, 13, 8}), start = torch::tensor({0, 2}, torch::kLong);
  const auto seen_by = [&](const torch::Tensor& input, bool cached) {
    DecoderState state;
    state.start = start;
    if (!cached) return stack->forward(input, {.state = &state});
    std::vector<torch::Tensor> out{stack->forward(input.slice(1, 0, 6), {.state = &state})};
    for (int64_t t = 6; t < 13; ++t) out.push_back(stack->forward(input.slice(1, t, t + 1), {.state = &state}));
    return torch::cat(out, 1);
  };
  const auto whole = seen_by(x, false);
  EXPECT_TRUE(close(seen_by(x, true).slice(1, 2), whole.slice(1, 2)));
  EXPECT_FALSE(close(whole, make_stack(decoder("rope", 2))->forward(x)));
  for (const int64_t changed : {2, 4, 5}) {
    auto other = x.clone();
    other.select(1, changed).neg_();                                             // a shift would not survive the norm
    const auto moved = (seen_by(other, true) - whole).abs().amax({2}).gt(1e-9);  // [B, T]
    const auto wanted = torch::arange(13).ge(changed) & torch::arange(13).lt(changed + 8);
    EXPECT_TRUE(torch::equal(moved, wanted.expand({2, 13}))) << changed;
  }
  options.causal = false;
  EXPECT_NE(error_of([&] { make_stack(options); }).find("goes with causal"), std::string::npos);
}

TEST(Stack, FinalDropoutIsForTrainingOnly) {
  StackOptions options = decoder("none");
  options.final_dropout = 1;
  auto stack = make_stack(options);
  EXPECT_GT(stack->forward(some({1, 3, 8})).abs().max().item<double>(), 0.1);
  stack->train();
  EXPECT_EQ(stack->forward(some({1, 3, 8})).abs().max().item<double>(), 0);
}

TEST(Stack, LeftPaddedRowsEqualSingleRunsAtEveryStep) {
  const torch::NoGradGuard no_grad;
  const auto x = some({2, 7, 8});
  for (const auto& position : positions_registry().names()) {
    const auto stack = make_stack(decoder(position));
    const auto alone = stack->forward(x.slice(0, 1).slice(1, 2));
    DecoderState state;
    state.start = torch::tensor({0, 2}, torch::kLong);
    std::vector<torch::Tensor> steps = {stack->forward(x.slice(1, 0, 4), {.state = &state})};
    for (int64_t t = 4; t < 7; ++t) steps.push_back(stack->forward(x.slice(1, t, t + 1), {.state = &state}));
    EXPECT_TRUE(close(torch::cat(steps, 1)[1].slice(0, 2), alone[0])) << position;
    EXPECT_TRUE(close(stack->forward(x, {.start = state.start})[1].slice(0, 2), alone[0])) << position;
  }
}

TEST(Stack, ASequenceDoesNotDependOnTheSideOfItsPadding) {
  for (const auto& position : positions_registry().names()) {
    auto options = decoder(position);
    options.causal = false;
    options.positions.bidirectional = true;
    const auto stack = make_stack(options);
    const auto x = some({1, 5, 8}), filler = some({1, 2, 8}, 9);
    const auto alone = stack->forward(x);
    const auto right = stack->forward(torch::cat({x, filler}, 1), {.lengths = torch::tensor({5}, torch::kLong)});
    const auto left = stack->forward(torch::cat({filler, x}, 1), {.start = torch::tensor({2}, torch::kLong)});
    EXPECT_TRUE(close(right.slice(1, 0, 5), alone)) << position;
    EXPECT_TRUE(close(left.slice(1, 2), alone)) << position;
  }
}

// Padding hides positions 1 … 5 of every sample: the output keeps its length, and training (without dropout) equals
// evaluation.
TEST(Stack, EvaluationWithPaddingKeepsTheLength) {
  auto stack = make_stack({.layers = 2, .block = {.attention = {.width = 8, .heads = 2}, .pre_norm = false}});
  const auto x = some({3, 6, 8});
  const StackInput in{.lengths = torch::ones({3}, torch::kLong)};
  torch::Tensor evaluated;
  {
    const torch::NoGradGuard no_grad;
    evaluated = stack->forward(x, in);
  }
  stack->train();
  EXPECT_EQ(evaluated.sizes(), x.sizes());
  EXPECT_TRUE(torch::equal(stack->forward(x, in).slice(1, 0, 1), evaluated.slice(1, 0, 1)));
}

TEST(Stack, DecoderWithMemoryAndCachesEqualsTheFullForward) {
  const torch::NoGradGuard no_grad;
  auto options = decoder("t5_bias");
  options.block.cross_attention = true;
  options.block.attention.memory_width = 6;
  const auto stack = make_stack(options);
  const auto x = some({2, 5, 8}), memory = some({2, 4, 6}, 1);
  const auto lengths = torch::tensor({4, 2}, torch::kLong);
  const auto full = stack->forward(x, {.memory = memory, .memory_lengths = lengths});
  EXPECT_TRUE(close(full[1], stack->forward(x.slice(0, 1), {.memory = memory.slice(0, 1).slice(1, 0, 2)})[0]));
  DecoderState state;
  state.memory = memory;
  state.memory_lengths = lengths;
  for (int64_t t = 0; t < 5; ++t)
    EXPECT_TRUE(close(stack->forward(x.slice(1, t, t + 1), {.state = &state}), full.slice(1, t, t + 1)));
}

TEST(Stack, ReorderedStatesGoOnAsTheirRows) {
  const torch::NoGradGuard no_grad;
  auto options = decoder("rope");
  options.block.cross_attention = true;
  const auto stack = make_stack(options);
  const auto x = some({3, 5, 8}), memory = some({3, 4, 8}, 1);
  const auto rows = torch::tensor({2, 0, 0}, torch::kLong);
  DecoderState state;
  state.memory = memory;
  state.start = torch::tensor({0, 1, 2}, torch::kLong);
  stack->forward(x.slice(1, 0, 4), {.state = &state});
  state.reorder(rows);
  const auto y = stack->forward(x.slice(1, 4), {.state = &state});
  const auto expected_x = torch::cat({x.slice(1, 0, 4).index_select(0, rows), x.slice(1, 4)}, 1);
  const auto wanted = stack->forward(
      expected_x, {.start = torch::tensor({2, 0, 0}, torch::kLong), .memory = memory.index_select(0, rows)});
  EXPECT_TRUE(close(y, wanted.slice(1, 4)));
}

TEST(Stack, NarrowTypesStayNearTheWideResult) {
  const torch::NoGradGuard no_grad;
  for (const auto& position : positions_registry().names()) {
    const auto stack = make_stack(decoder(position));
    const auto x = some({2, 6, 8});
    const auto wide = stack->forward(x);
    for (const auto type : {torch::kBFloat16, torch::kHalf}) {
      auto narrow = make_stack(decoder(position));
      narrow->to(type);
      DecoderState state;
      const auto y = torch::cat({narrow->forward(x.slice(1, 0, 5).to(type), {.state = &state}),
                                 narrow->forward(x.slice(1, 5).to(type), {.state = &state})},
                                1);
      EXPECT_EQ(y.scalar_type(), type) << position;
      EXPECT_LT((y.to(torch::kDouble) - wide).abs().max().item<double>(), type == torch::kHalf ? 0.02 : 0.15)
          << position;
    }
  }
}

TEST(Stack, SlidingWindowsGoWithCaches) {
  const torch::NoGradGuard no_grad;
  const auto stack = make_stack(decoder("rope"));
  const auto x = some({1, 10, 8});
  const auto full = stack->forward(x, {.mask = masks::sliding_window(3)});
  DecoderState state;
  for (int64_t t = 0; t < 10; ++t)
    EXPECT_TRUE(close(stack->forward(x.slice(1, t, t + 1), {.mask = masks::sliding_window(3), .state = &state}),
                      full.slice(1, t, t + 1)));
}

TEST(Stack, CausalMeansThatNoTokenSeesALaterOne) {
  const auto stack = make_stack(decoder("learned"));
  auto x = some({1, 6, 8});
  const auto before = stack->forward(x);
  x[0][4][0] += 1;  // one channel: a norm would not see the same shift of all
  const auto after = stack->forward(x);
  EXPECT_TRUE(torch::equal(after.slice(1, 0, 4), before.slice(1, 0, 4)));
  EXPECT_FALSE(torch::allclose(after.slice(1, 4), before.slice(1, 4)));
}

TEST(Stack, ProbesSeeEveryPart) {
  auto options = decoder("none");
  options.block.cross_attention = true;
  const auto stack = make_stack(options);
  std::set<std::string> names;
  const auto probe = Probe::on("*", [&](std::string_view name, const torch::Tensor&) { names.emplace(name); });
  const auto x = some({1, 3, 8});
  const auto watched = stack->forward(x, {.memory = x});
  std::set<std::string> wanted;
  for (const std::string layer : {"layers.0.", "layers.1."})
    for (const char* part : {"attention.weights", "cross_attention.weights", "feed_forward.output", "output"})
      wanted.insert(layer + part);
  EXPECT_EQ(names, wanted);
}

TEST(Stack, EmbeddingsAreNormedAfterTheirPositions) {
  auto options = decoder("learned");
  options.embed_norm = true;
  options.final_norm = false;
  const auto stack = make_stack(options);
  const auto x = some({1, 3, 8});
  auto y = stack->embed_norm->forward(stack->position->embed(x, {}));
  for (const auto& block : stack->layers) y = block->forward(y, {.mask = Mask::leaf("causal", {0})});
  EXPECT_TRUE(close(stack->forward(x), y));
}

// One table for all layers gathers the gradients of all.
TEST(Stack, GradientsOfSharedPositions) {
  for (const char* position : {"t5_bias", "learned", "rope", "relative_keys", "xl_relative"}) {
    auto options = decoder(position, 2);
    options.block.feed_forward.activation = "gelu";
    auto stack = make_stack(options);
    const auto x = f64_input({2, 3, 8});
    const auto leaves = f64_leaves(*stack, {x});
    expect_gradients(
        [&] {
          return stack->forward(x, {.start = torch::tensor({0, 1}, torch::kLong)});
        },
        leaves, 1e-5, 2);
  }
}

// Transformer-XL: the parts of a text, each seeing what the ones before left, are the text.
TEST(Stack, SegmentsWithEnoughMemoryAreOneText) {
  for (const bool pre_norm : {true, false}) {
    auto options = decoder("xl_relative");
    options.position_each = true;
    options.block.pre_norm = pre_norm;
    auto stack = make_stack(options);
    const auto x = some({2, 9, 8});
    const auto whole = stack->forward(x);
    SegmentMemory memory{.length = 16};
    int64_t done = 0;
    for (const int64_t count : {3, 1, 4, 1}) {
      const auto y = stack->forward(x.slice(1, done, done + count), {.segments = &memory});
      EXPECT_TRUE(close(y, whole.slice(1, done, done + count))) << done;
      done += count;
      ASSERT_EQ(memory.layers.size(), 2u);
      EXPECT_EQ(memory.layers[1].sizes(), (std::vector<int64_t>{2, done, 8}));
      EXPECT_FALSE(memory.layers[1].requires_grad());
    }
    memory.length = 4;
    stack->forward(x.slice(1, 0, 2), {.segments = &memory});
    EXPECT_TRUE(torch::equal(memory.layers[0].slice(1, 2), stack->position->embed(x.slice(1, 0, 2), {})));
    EXPECT_EQ(memory.layers[0].size(1), 4);
    memory.length = 0;
    stack->forward(x.slice(1, 0, 2), {.segments = &memory});
    EXPECT_EQ(memory.layers[0].size(1), 0);
    const auto says = [&](StackInput in, const char* part) {
      in.segments = &memory;
      const auto message = error_of([&] { stack->forward(x, in); });
      EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    DecoderState state;
    says({.state = &state}, "segments go without a state");
    says({.lengths = torch::tensor({9, 2}, torch::kLong)}, "segments go without a state");
    memory.layers.pop_back();
    says({}, "has 1 layers, wanted 2");
    memory.layers.assign(2, some({1, 2, 8}));
    says({}, "memory is [1, 2, 8], wanted [B, N, C] with B = 2");
  }
}

TEST(Stack, EveryLayerMayHaveItsOwnPositions) {
  auto options = decoder("t5_bias");
  options.position_each = true;
  const auto stack = make_stack(options);
  EXPECT_TRUE(stack->named_parameters().contains("layers.1.attention.position.weight"));
  EXPECT_FALSE(stack->named_parameters().contains("position.weight"));
  const torch::NoGradGuard no_grad;
  const auto x = some({1, 5, 8}), before = stack->forward(x);
  auto table = stack->layers[1]->attention->position->parameters()[0];
  table.data().mul_(-100);
  EXPECT_FALSE(close(stack->forward(x), before));
}

TEST(Stack, NamesOfParameters) {
  const auto stack = make_stack(decoder("learned"));
  const auto named = stack->named_parameters();
  for (const char* name : {"position.weight", "layers.1.attention.query.weight", "layers.0.attention_norm.bias",
                           "layers.0.feed_forward.down.weight", "final_norm.weight"})
    EXPECT_TRUE(named.contains(name)) << name;
}

TEST(Stack, Errors) {
  const auto stack = make_stack(decoder("learned"));
  EXPECT_NE(error_of([&] {
              stack->forward(some({1, 17, 8}));
            }).find("17 tokens does not fit the 16 positions"),
            std::string::npos);
  DecoderState state;
  stack->forward(some({1, 16, 8}), {.state = &state});
  EXPECT_NE(error_of([&] { stack->forward(some({1, 1, 8}), {.state = &state}); }).find("17 tokens"), std::string::npos);
  EXPECT_EQ(state.length(), 16);  // nothing was appended
  EXPECT_NE(error_of([&] { stack->forward(some({1, 4, 6})); }).find("with C = 8"), std::string::npos);
  state = {};
  const auto lengths = torch::tensor({3}, torch::kLong);
  EXPECT_NE(error_of([&] {
              stack->forward(some({1, 4, 8}), {.lengths = lengths, .state = &state});
            }).find("pad on the left"),
            std::string::npos);
  state.self.resize(3);
  EXPECT_NE(error_of([&] {
              stack->forward(some({1, 4, 8}), {.state = &state});
            }).find("caches of 3 layers, wanted 2"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { Stack({.layers = 0, .block = {.attention = {.width = 8, .heads = 2}}}); }).find("layers is 0"),
      std::string::npos);
  EXPECT_NE(error_of([] {
              Stack({.layers = 1, .block = {.attention = {.width = 8, .heads = 2, .position = "rope"}}});
            }).find("its own `position`"),
            std::string::npos);
}

// Every encoding, padding on either side, f32: rows equal runs of their own, and so do the gradients.
TEST(Stack, SkippedPaddingChangesNothing) {
  torch::manual_seed(5);
  const std::vector<int64_t> begins{0, 7, 3}, counts{70, 1, 40};
  for (const auto& position : positions_registry().names()) {
    for (const bool causal : {true, false}) {
      StackOptions options = decoder(position);
      options.positions.max_positions = 128;
      options.causal = causal;
      Stack stack(options);
      const auto x = torch::randn({3, 70, 8}).requires_grad_();
      const auto start = torch::tensor(begins), lengths = torch::tensor(counts);
      const auto y = stack->forward(x, {.start = start, .lengths = lengths});
      y.select(0, 0).sum().backward();
      EXPECT_EQ(x.grad()[1].abs().max().item<float>(), 0) << position;
      EXPECT_EQ(x.grad()[2].abs().max().item<float>(), 0) << position;
      for (int64_t b = 0; b < 3; ++b) {
        const auto alone = x.detach().slice(0, b, b + 1).slice(1, begins[b], begins[b] + counts[b]);
        const auto real = y.slice(0, b, b + 1).slice(1, begins[b], begins[b] + counts[b]);
        EXPECT_TRUE(torch::allclose(real, stack->forward(alone), 1e-4, 1e-5)) << position << " row " << b;
      }
    }
  }
}

}  // namespace
}  // namespace fovea
