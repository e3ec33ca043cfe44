// Encoders with their tokenizers; their numbers are held against transformers in tests/parity.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/text_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/io/files.h"
#include "fovea/models/bert.h"
#include "fovea/text/training.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

TextEncoder small_encoder(const std::string& head) {
  const Tokenizer tokenizer = train_characters("abcdef <>", {.special_tokens = {"[PAD]", "[MASK]"}});
  BertConfig config{
      .head = head, .vocab_size = tokenizer.end_id(), .positions = 20, .width = 12, .layers = 2, .heads = 3};
  if (head == "classifier" || head == "token_classifier") config.labels = {"x", "y"};
  at::manual_seed(3);
  Bert model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.3);
  model->eval();
  return {model.ptr(), tokenizer};
}

TextEncoder::Texts some_texts() { return {"a bad cab", "c", "dead beef cafe", "abba"}; }

TEST(TextEncoderTest, AVectorIsThePoolOfItsTokensWhateverRunsWithIt) {
  TextEncoder encoder = small_encoder("none");
  const auto tokens = encoder.embed_tokens(some_texts());
  for (const int64_t batch_tokens : {1, 16, 4096}) {
    for (const std::string pool : {"mean", "cls"}) {
      for (const bool normalize : {false, true}) {
        encoder.batch_tokens = batch_tokens;
        encoder.pool = pool;
        encoder.normalize = normalize;
        const Tensor vectors = encoder.embed(some_texts());
        ASSERT_EQ(vectors.sizes(), (std::vector<int64_t>{4, 12}));
        for (size_t i = 0; i < tokens.size(); ++i) {
          EXPECT_EQ(tokens[i].size(0), int64_t(encoder.tokenizer.ids(some_texts()[i]).size()));
          Tensor wanted = pool == "cls" ? tokens[i][0] : tokens[i].mean(0);
          if (normalize) wanted = wanted / wanted.norm();
          EXPECT_TRUE(at::allclose(vectors[int64_t(i)], wanted, 1e-4, 1e-5)) << pool << ' ' << i;
        }
      }
    }
  }
  EXPECT_FALSE(encoder.embed(some_texts()).requires_grad());
  EXPECT_EQ(encoder.embed(TextEncoder::Texts{}).size(0), 0);
}

TEST(TextEncoderTest, AFolderGivesItBack) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "fovea_text_encoder";
  std::filesystem::remove_all(folder);
  TextEncoder encoder = small_encoder("none");
  encoder.pool = "cls";
  encoder.normalize = true;
  encoder.save(folder);
  const auto back = load_pretrained(folder);
  EXPECT_EQ(back.pool, "cls");
  EXPECT_TRUE(back.normalize);
  EXPECT_TRUE(at::equal(back.embed(some_texts()), encoder.embed(some_texts())));

  const auto refused = [&](const char* modules, const char* part) {
    write_file(folder / "modules.json", modules);
    const auto message = error_of([&] { load_pretrained(folder); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused("{}", "wanted a list of modules");
  refused(R"([{"type": "sentence_transformers.models.Dense"}])", "models.Dense\" is not supported");
  write_file(folder / "1_Pooling" / "config.json", R"({"pooling_mode_max_tokens": true})");
  refused(R"([{"type": "x.Pooling", "path": "1_Pooling"}])", "pooling_mode_max_tokens\" is not supported");
  write_file(folder / "1_Pooling" / "config.json",
             R"({"pooling_mode_max_tokens": true, "pooling_mode_cls_token": true})");
  refused(R"([{"type": "x.Pooling", "path": "1_Pooling"}])", "several pooling modes");
  write_file(folder / "1_Pooling" / "config.json", R"({"pooling_mode": "mean"})");
  EXPECT_EQ(load_pretrained(folder).pool, "mean");
  std::filesystem::remove_all(folder);
}

TEST(TextEncoderTest, ClassesAndMaskedWords) {
  const TextEncoder rows = small_encoder("classifier"), tokens = small_encoder("token_classifier"),
                    words = small_encoder("masked_lm");
  for (const auto& is : rows.classify(some_texts())) {
    EXPECT_NEAR(is.scores[0] + is.scores[1], 1, 1e-5);
    EXPECT_EQ(is.label, is.scores[0] > is.scores[1] ? "x" : "y");
  }
  const auto of_tokens = tokens.classify_tokens(some_texts());
  EXPECT_EQ(of_tokens[0].size(), 9U);
  EXPECT_EQ(of_tokens[0][2].token, "b");
  EXPECT_EQ(of_tokens[0][2].offset, (std::pair<int64_t, int64_t>{2, 3}));
  const auto filled = words.fill_mask("a[MASK]b[MASK]", 3);
  ASSERT_EQ(filled.size(), 6U);
  EXPECT_EQ(filled[2].mask, 0);
  EXPECT_EQ(filled[3].mask, 1);
  EXPECT_GE(filled[3].score, filled[4].score);
  EXPECT_EQ(words.fill_mask("[MASK]", 1000).size(), size_t(words.tokenizer.end_id()));
}

TEST(TextEncoderTest, WrongCalls) {
  const auto says = [](const std::function<void()>& call, const char* part) {
    const auto message = error_of(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  TextEncoder encoder = small_encoder("none");
  says([&] { encoder.embed({"a", ""}); }, "text 2 is empty");
  says([&] { encoder.embed({"a", std::string(21, 'a')}); }, "text 2 has 21 tokens, the model has 20 positions");
  says([&] { encoder.classify(some_texts()); }, "cannot classify texts: its head is \"none\"");
  says([&] { encoder.fill_mask("[MASK]"); }, "cannot fill masks");
  says([] { small_encoder("masked_lm").fill_mask("abba"); }, "no [MASK] to fill");
  says([] { small_encoder("masked_lm").fill_mask("[MASK]", 0); }, "top_k is 0");
  encoder.pool = "max";
  says([&] { encoder.embed(some_texts()); }, "pool is \"max\"");
  encoder.pool = "mean";
  encoder.batch_tokens = 0;
  says([&] { encoder.embed(some_texts()); }, "batch_tokens is 0");
}

TEST(TextEncoderTest, AnAnswerIsTheBestSpanOfTheContext) {
  const TextEncoder encoder = small_encoder("question_answering");
  const std::string question = "abc", context = "deadabeef";
  const auto ids = encoder.tokenizer.ids(question + context);
  ASSERT_EQ(ids.size(), 12u);  // a letter a token, nothing around them
  const auto answers = encoder.answer(question, context, {.top_k = 1000, .longest = 4});
  EXPECT_EQ(answers.size(), 9u * 4 - 6);
  const torch::NoGradGuard no_grad;
  const Tensor logits =
      encoder.model->forward({.ids = at::tensor(ids, at::kLong).unsqueeze(0),
                              .type_ids = at::tensor({0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0)})[0];
  const Tensor wanted = at::softmax(at::cat({logits.slice(0, 0, 1), logits.slice(0, 3)}), 0);  // [10, 2]
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto [begin, end] = answers[i].offset;
    EXPECT_EQ(answers[i].text, context.substr(size_t(begin), size_t(end - begin)));
    EXPECT_NEAR(answers[i].score, (wanted[1 + begin][0] * wanted[end][1]).item<float>(), 1e-5);
    EXPECT_LE(answers[i].score, answers[i > 0 ? i - 1 : 0].score);
  }
}

TEST(TextEncoderTest, AnAnswerHasNoBlanksAroundIt) {
  const TextEncoder encoder = small_encoder("question_answering");  // a blank is a token, too
  const std::string context = "dead beef";
  const auto answers = encoder.answer("abc", context, {.top_k = 1000, .longest = 4});
  EXPECT_GT(answers.size(), 20u);
  for (const AnswerSpan& answer : answers) {
    const auto [begin, end] = answer.offset;
    EXPECT_EQ(answer.text, context.substr(size_t(begin), size_t(end - begin)));
    EXPECT_TRUE(answer.text.front() != ' ' && answer.text.back() != ' ') << answer.text;
  }
}

TEST(TextEncoderTest, ALongContextIsReadInWindows) {
  const TextEncoder encoder = small_encoder("question_answering");  // 20 positions
  const std::string context = "a bad cab faded a dead bee bed a cade fed abba a bead";
  std::vector<bool> seen(context.size());
  for (const AnswerSpan& answer : encoder.answer("abc", context, {.top_k = 10'000, .longest = 1, .overlap = 5})) {
    EXPECT_EQ(answer.text, context.substr(size_t(answer.offset.first), 1));
    EXPECT_FALSE(seen[size_t(answer.offset.first)]);
    seen[size_t(answer.offset.first)] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), std::count(context.begin(), context.end(), ' '));
  EXPECT_FALSE(encoder.answer("abcabcabcabc", context).empty());  // windows share half of what room there is
  EXPECT_THROW(encoder.answer("abcabcabcabcabcabcab", context), Error);
  EXPECT_THROW(encoder.answer("abc", ""), Error);
  EXPECT_THROW(encoder.answer("abc", " \n "), Error);
  EXPECT_THROW(small_encoder("classifier").answer("abc", context), Error);
}

}  // namespace
}  // namespace fovea
