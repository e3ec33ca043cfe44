// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "fovea/base/error.h"
#include "fovea/generate/toy_model_test.h"

namespace fovea {
namespace {

using Prompts = std::vector<std::vector<int64_t>>;

const Prompts kRagged{{1, 2}, {3, 1, 4, 2}, {4}};

std::string error_of(const GenerativeModelImpl& model, const Prompts& prompts, const GenerateOptions& options) {
  try {
    generate(model, prompts, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_equal(const Generated& a, const Generated& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.finish, b.finish);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) EXPECT_NEAR(a.logprobs[i], b.logprobs[i], 1e-4);
}

// A batch of ragged prompts gives each row what it gets alone with its own seed.
void expect_batch_equals_single(const GenerativeModelImpl& model, const Prompts& prompts, GenerateOptions options) {
  const GenerateResult batch = generate(model, prompts, options);
  ASSERT_EQ(batch.rows.size(), prompts.size());
  for (size_t row = 0; row < prompts.size(); ++row) {
    SCOPED_TRACE(row);
    GenerateOptions alone = options;
    alone.seed = options.seed + int64_t(row);
    expect_equal(batch.rows[row], generate(model, {prompts[row]}, alone).rows[0]);
  }
}

TEST(Generate, GreedyTakesTheBestOfTheFullForwardAtEveryStep) {
  const ToyModelImpl model({.vocab = 9});
  const Generated row = generate(model, Prompts{{3, 1, 4}}, {.max_new_tokens = 12}).rows[0];
  std::vector<int64_t> ids{3, 1, 4};
  ASSERT_EQ(row.tokens.size(), 12u);
  double score = 0;
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    const Tensor logprobs = at::log_softmax(model.full(ids, model.begin()), 0);
    EXPECT_EQ(row.tokens[i], logprobs.argmax().item<int64_t>());
    EXPECT_NEAR(row.logprobs[i], logprobs[row.tokens[i]].item<double>(), 1e-5);
    score += row.logprobs[i];
    ids.push_back(row.tokens[i]);
  }
  EXPECT_NEAR(row.score, score, 1e-9);
  EXPECT_EQ(row.finish, Finish::kLength);
}

// OpenNMT/OpenNMT-py #2532: left padding was masked in the first step only.
TEST(Generate, BatchWithLeftPaddingEqualsSingle) {
  const ToyModelImpl model({.vocab = 9});
  expect_batch_equals_single(model, kRagged, {.max_new_tokens = 8, .seed = 0});
  expect_batch_equals_single(model, kRagged, {.max_new_tokens = 8, .temperature = 1, .seed = 40});
  expect_batch_equals_single(model, kRagged,
                             {.max_new_tokens = 8,
                              .temperature = 2,
                              .top_k = 6,
                              .top_p = 0.9,
                              .min_p = 0.01,
                              .repetition_penalty = 1.3,
                              .no_repeat_ngram = 2,
                              .seed = 7});
}

TEST(Generate, RowsEndOneByOneAndTheOthersGoOn) {
  const ToyModelImpl model({.vocab = 6, .sharpness = 0.5});
  const Prompts prompts{{1, 2}, {3, 1, 4, 2}, {4}, {5, 5, 5}, {2, 1}};
  const GenerateOptions options{.max_new_tokens = 20, .temperature = 1.5, .seed = 11, .end_ids = {0, 3}, .pad_id = 5};
  expect_batch_equals_single(model, prompts, options);
  const GenerateResult result = generate(model, prompts, options);
  std::set<size_t> lengths;
  size_t longest = 0;
  for (const Generated& row : result.rows) {
    lengths.insert(row.tokens.size());
    longest = std::max(longest, row.tokens.size());
    EXPECT_EQ(row.finish, Finish::kEnd);
    for (size_t i = 0; i < row.tokens.size(); ++i)
      EXPECT_EQ(row.tokens[i] == 0 || row.tokens[i] == 3, i + 1 == row.tokens.size());
  }
  EXPECT_GT(lengths.size(), 2u) << "the case should have rows of several lengths";
  ASSERT_EQ(result.ids.sizes(), (at::IntArrayRef{5, int64_t(longest)}));
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t i = 0; i < int64_t(longest); ++i) {
      const auto& tokens = result.rows[row].tokens;
      EXPECT_EQ(result.ids[row][i].item<int64_t>(), i < int64_t(tokens.size()) ? tokens[i] : 5);
    }
}

TEST(Generate, StopsWorkingWhenAllRowsHaveEnded) {
  const ScriptModelImpl model(5, {2, 3, 1});
  const GenerateResult result = generate(model, Prompts{{4}, {4, 4}}, {.max_new_tokens = 50, .end_ids = {1}});
  EXPECT_EQ(model.steps, 3);  // the prompts, then two tokens; the end token is not read
  EXPECT_EQ(model.rows, 6);
  EXPECT_EQ(result.rows[1].tokens, (std::vector<int64_t>{2, 3, 1}));
  EXPECT_TRUE(result.ids.equal(at::tensor({2, 3, 1, 2, 3, 1}, at::kLong).view({2, 3})));
  EXPECT_GE(result.seconds.prefill, 0);
  EXPECT_GE(result.seconds.decode, 0);
}

TEST(Generate, PaddingIsTheFirstEndTokenUnlessGiven) {
  const ToyModelImpl model({.vocab = 6});
  EXPECT_EQ((GenerateOptions{.end_ids = {4, 2}}.padding()), 4);
  EXPECT_EQ((GenerateOptions{.end_ids = {4, 2}, .pad_id = 0}.padding()), 0);
  EXPECT_EQ(GenerateOptions{}.padding(), 0);
}

TEST(Generate, EndsAtTheLastPosition) {
  const ToyModelImpl model({.vocab = 5, .positions = 8});
  Prompts prompts{{1, 2, 3, 1, 2, 3, 1}, {1}, {1, 2, 3, 4, 1, 2, 3, 4}};
  const GenerateResult result = generate(model, prompts, {.max_new_tokens = 5});
  EXPECT_EQ(result.rows[0].tokens.size(), 2u);  // the last token needs no position
  EXPECT_EQ(result.rows[0].finish, Finish::kPositions);
  EXPECT_EQ(result.rows[1].tokens.size(), 5u);
  EXPECT_EQ(result.rows[1].finish, Finish::kLength);
  EXPECT_EQ(result.rows[2].tokens.size(), 1u);
  EXPECT_EQ(result.rows[2].finish, Finish::kPositions);
  expect_batch_equals_single(model, prompts, {.max_new_tokens = 20, .seed = 0});
}

TEST(Generate, SeedsReproduce) {
  const ToyModelImpl model({.vocab = 9, .sharpness = 0.3});
  GenerateOptions options{.max_new_tokens = 20, .temperature = 1, .seed = 5};
  const auto first = generate(model, kRagged, options);
  EXPECT_EQ(first.seed, 5);
  at::manual_seed(99);
  EXPECT_EQ(generate(model, kRagged, options).rows[1].tokens, first.rows[1].tokens);
  options.seed = 6;
  const auto next = generate(model, kRagged, options);
  EXPECT_NE(next.rows[1].tokens, first.rows[1].tokens);
  const auto twins = generate(model, Prompts{{1}, {1}}, options);  // same prompt, another seed each
  EXPECT_NE(twins.rows[0].tokens, twins.rows[1].tokens);
}

TEST(Generate, WithoutASeedLibTorchGivesOne) {
  const ToyModelImpl model({.vocab = 9, .sharpness = 0.3});
  const GenerateOptions options{.max_new_tokens = 20, .temperature = 1};
  at::manual_seed(1);
  const auto first = generate(model, Prompts{{1}}, options), second = generate(model, Prompts{{1}}, options);
  at::manual_seed(1);
  EXPECT_EQ(generate(model, Prompts{{1}}, options).rows[0].tokens, first.rows[0].tokens);
  EXPECT_NE(first.rows[0].tokens, second.rows[0].tokens);
  EXPECT_EQ(generate(model, Prompts{{1}}, {.max_new_tokens = 20, .temperature = 1, .seed = second.seed}).rows[0].tokens,
            second.rows[0].tokens);
}

TEST(Generate, NarrowRulesMakeDrawingGreedy) {
  const ToyModelImpl model({.vocab = 9, .sharpness = 0.3});
  const auto greedy = generate(model, kRagged, {.max_new_tokens = 9});
  for (const GenerateOptions& options : {GenerateOptions{.max_new_tokens = 9, .temperature = 1, .top_k = 1},
                                         {.max_new_tokens = 9, .temperature = 1, .top_p = 0},
                                         {.max_new_tokens = 9, .temperature = 3, .min_p = 1},
                                         {.max_new_tokens = 9, .temperature = 1e-12}})
    for (size_t row = 0; row < kRagged.size(); ++row)
      EXPECT_EQ(generate(model, kRagged, options).rows[row].tokens, greedy.rows[row].tokens);
}

TEST(Generate, RulesSeePromptAndAnswer) {
  const ToyModelImpl model({.vocab = 6});
  const auto row = generate(model, Prompts{{1, 4}}, {.max_new_tokens = 10, .no_repeat_ngram = 1}).rows[0];
  EXPECT_EQ(row.finish, Finish::kExhausted);
  EXPECT_EQ((std::set<int64_t>(row.tokens.begin(), row.tokens.end())), (std::set<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(row.tokens.size(), 4u);
}

TEST(Generate, EncoderDecoderReadsTheSourceAndStartsWithItsToken) {
  const ToyModelImpl model({.vocab = 9, .encoder = true});
  const auto row = generate(model, Prompts{{3, 5}}, {.max_new_tokens = 6, .start_id = 7}).rows[0];
  std::vector<int64_t> ids{7};
  for (int64_t token : row.tokens) {
    const DecoderState state = model.begin(at::tensor({3, 5}, at::kLong).view({1, 2}), at::tensor({2}, at::kLong));
    EXPECT_EQ(token, model.full(ids, state).argmax().item<int64_t>());
    ids.push_back(token);
  }
  expect_batch_equals_single(model, kRagged,
                             {.max_new_tokens = 9, .temperature = 1, .seed = 3, .end_ids = {0}, .start_id = 7});
  EXPECT_EQ(generate(model, kRagged, {.max_new_tokens = 90, .start_id = 7}).rows[1].tokens.size(), 32u);
}

TEST(Generate, CallbackGetsEveryToken) {
  const ToyModelImpl model({.vocab = 9});
  std::vector<std::vector<int64_t>> seen(3);
  std::vector<Finish> finish(3, Finish::kNone);
  const auto result = generate(model, kRagged, {.max_new_tokens = 5}, nullptr, [&](const TokenEvent& event) {
    EXPECT_EQ(finish[event.row], Finish::kNone) << "a token after the end";
    seen[event.row].push_back(event.id);
    finish[event.row] = event.finish;
    EXPECT_LE(event.logprob, 0);
    return true;
  });
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(seen[row], result.rows[row].tokens);
    EXPECT_EQ(finish[row], Finish::kLength);
  }
}

TEST(Generate, CallbackCanEndARow) {
  const ToyModelImpl model({.vocab = 9});
  const auto result =
      generate(model, kRagged, {.max_new_tokens = 5}, nullptr, [](const TokenEvent& event) { return event.row != 1; });
  EXPECT_EQ(result.rows[1].tokens.size(), 1u);
  EXPECT_EQ(result.rows[1].finish, Finish::kCancelled);
  EXPECT_EQ(result.rows[0].tokens, generate(model, kRagged, {.max_new_tokens = 5}).rows[0].tokens);
}

TEST(Generate, NoPromptsGiveNoRows) {
  const auto result = generate(ToyModelImpl({}), {});
  EXPECT_TRUE(result.rows.empty());
  EXPECT_EQ(result.ids.sizes(), (at::IntArrayRef{0, 0}));
}

TEST(Generate, IdsMayBeTrainedOn) {
  const auto result = generate(ToyModelImpl({}), Prompts{{1}}, {.max_new_tokens = 3});
  const Tensor table = at::randn({5, 2}).requires_grad_();
  at::embedding(table, result.ids).sum().backward();
  EXPECT_TRUE(table.grad().defined());
}

TEST(Generate, AcceptsModelsInOtherTypes) {
  for (const auto dtype : {at::kBFloat16, at::kDouble})
    expect_batch_equals_single(ToyModelImpl({.vocab = 9, .dtype = dtype}), {{1, 2}, {3, 4}},
                               {.max_new_tokens = 5, .temperature = 1, .seed = 2});
}

TEST(Generate, BadCallsNameWhatIsWrong) {
  const ToyModelImpl model({.vocab = 9, .positions = 4});
  const auto option_error = [&](const GenerateOptions& options) { return error_of(model, Prompts{{1}}, options); };
  EXPECT_EQ(option_error({.temperature = -1}), "generate: temperature is -1, wanted 0 or more");
  EXPECT_EQ(option_error({.temperature = std::numeric_limits<double>::quiet_NaN()}),
            "generate: temperature is nan, wanted 0 or more");
  EXPECT_EQ(option_error({.temperature = 1, .top_p = 1.5}), "generate: top_p is 1.5, wanted 0 … 1");
  EXPECT_EQ(option_error({.top_k = -1}), "generate: top_k is -1, wanted 0 (all) or more");
  EXPECT_EQ(option_error({.min_p = -0.5}), "generate: min_p is -0.5, wanted 0 … 1");
  EXPECT_EQ(option_error({.repetition_penalty = 0}), "generate: repetition_penalty is 0, wanted more than 0");
  EXPECT_EQ(option_error({.max_new_tokens = 0}), "generate: max_new_tokens is 0, wanted 1 or more");
  EXPECT_EQ(option_error({.seed = -2}), "generate: seed is -2, wanted 0 or more, or -1 for another one each time");
  EXPECT_EQ(option_error({.beams = 2, .results = 3}), "generate: results is 3, wanted 1 … beams (2)");
  EXPECT_EQ(option_error({.temperature = 1, .beams = 2}),
            "generate: beams is 2 and temperature 1; beam search takes the best and never draws: wanted temperature 0");
  EXPECT_EQ(option_error({.beam_stop = "frist"}), "generate: beam_stop is \"frist\"; did you mean \"first\"?");
  EXPECT_EQ(option_error({.end_ids = {9}}), "generate: end_ids holds 9, wanted 0 … 8");
  EXPECT_EQ(option_error({.stop = {""}}), "generate: stop holds an empty text");
  EXPECT_EQ(option_error({.stop = {"a"}}), "generate: stop strings need a tokenizer");
  EXPECT_EQ(error_of(model, Prompts{{1}, {}}, {}), "generate: prompt 1 is empty; wanted at least one token");
  EXPECT_EQ(error_of(model, Prompts{{1, 2, 3, 4, 5}}, {}),
            "generate: prompt 0 has 5 tokens, the model has 4 positions");
  EXPECT_EQ(error_of(model, Prompts{{1, 9}}, {}),
            "generate: prompt 0 holds token 9, the model's vocabulary has 9 (is this the model's own tokenizer?)");
  EXPECT_EQ(error_of(ToyModelImpl({.encoder = true}), {{1}}, {}),
            "generate: start_id is -1, wanted 0 … 4; an encoder-decoder needs the token that its targets start with");
  ToyModelImpl training({});
  training.train();
  EXPECT_EQ(error_of(training, Prompts{{1}}, {}),
            "generate: the model is in training mode, where dropout is active; call eval() first");
}

TEST(Generate, ErrorsHaveTheirKind) {
  const ToyModelImpl model({});
  const auto kind_of = [&](const Prompts& prompts, const GenerateOptions& options) {
    try {
      generate(model, prompts, options);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of({{1}}, {.temperature = -1}), ErrorKind::kConfig);
  EXPECT_EQ(kind_of({{}}, {}), ErrorKind::kInput);
}

TEST(Generate, LogitsThatAreNotNumbersAreAnError) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ToyModelImpl model({});
    model.named_parameters()["output"].fill_(bad);
    try {
      generate(model, Prompts{{1}});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDiverged);
      EXPECT_STREQ(error.what(), "generate: the logits of row 0 hold NaN or infinity; the model has diverged");
    }
  }
}

TEST(Generate, OptionsAreVisited) {
  struct Names : FieldVisitor {
    std::set<std::string> names;
    void field(std::string_view name, bool&, std::string_view) override { names.emplace(name); }
    void field(std::string_view name, int64_t&, std::string_view) override { names.emplace(name); }
    void field(std::string_view name, double&, std::string_view) override { names.emplace(name); }
    void field(std::string_view name, std::string&, std::string_view) override { names.emplace(name); }
    void field(std::string_view name, std::vector<int64_t>&, std::string_view) override { names.emplace(name); }
    void field(std::string_view name, std::vector<std::string>&, std::string_view) override { names.emplace(name); }
    void section(std::string_view, const std::function<void(FieldVisitor&)>&) override {}
  } visitor;
  GenerateOptions().visit(visitor);
  EXPECT_EQ(visitor.names.size(), 19u);
  EXPECT_EQ(visitor.names.count("top_p"), 1u);
}

TEST(Generate, FinishesHaveNames) {
  EXPECT_EQ(finish_name(Finish::kNone), "");
  EXPECT_EQ(finish_name(Finish::kEnd), "end");
  EXPECT_EQ(finish_name(Finish::kCancelled), "cancelled");
}

TEST(Generate, ForcedTokensStandWhereTheyMust) {
  for (const bool encoder : {false, true}) {
    const ToyModelImpl model({.vocab = 9, .encoder = encoder});
    const GenerateOptions options{
        .max_new_tokens = 6, .end_ids = {8}, .start_id = encoder ? 0 : -1, .forced_first = 7, .forced_last = 8};
    for (const Generated& row : generate(model, kRagged, options).rows) {
      EXPECT_EQ(row.tokens.front(), 7);
      EXPECT_EQ(row.tokens.back(), 8);
      EXPECT_LE(row.tokens.size(), 6u);
      EXPECT_EQ(row.finish, Finish::kEnd);
    }
    expect_batch_equals_single(model, kRagged, options);
  }
  const ToyModelImpl model({.vocab = 9});
  EXPECT_EQ(generate(model, {{1}}, {.max_new_tokens = 1, .forced_first = 7, .forced_last = 6}).rows[0].tokens,
            std::vector<int64_t>{6});
  EXPECT_NE(error_of(model, {{1}}, {.forced_first = 9}).find("forced_first is 9"), std::string::npos);
}

TEST(Generate, NoEndBeforeTheLeastLength) {
  const ScriptModelImpl model(6, {2, 5, 3, 5, 1, 5});
  const Generated row = generate(model, {{1}}, {.max_new_tokens = 8, .min_new_tokens = 3, .end_ids = {5}}).rows[0];
  ASSERT_EQ(row.tokens.size(), 4u);
  EXPECT_EQ(row.tokens[0], 2);
  EXPECT_NE(row.tokens[1], 5);
  EXPECT_EQ(row.tokens[3], 5);
  EXPECT_NE(error_of(model, {{1}}, {.max_new_tokens = 3, .min_new_tokens = 4}).find("min_new_tokens is 4"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea
