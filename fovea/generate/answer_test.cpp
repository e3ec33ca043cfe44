// The text of what is generated: whole characters while it streams, stop strings wherever tokens are cut.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/answer.h"

#include <gtest/gtest.h>

#include "fovea/base/utf8.h"
#include "fovea/generate/toy_model_test.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

// One token a byte, so that characters and stop strings lie across tokens; id 0 ends a text.
const Tokenizer& bytes_tokenizer() {
  static const Tokenizer tokenizer = train_bpe({"a"}, {.vocab_size = 257, .special_tokens = {"<end>"}});
  return tokenizer;
}

std::vector<int64_t> script_of(const std::string& text) {
  std::vector<int64_t> ids = bytes_tokenizer().ids(text);
  EXPECT_EQ(ids.size(), text.size());
  ids.push_back(0);
  return ids;
}

struct Streamed {
  Generated row;
  std::vector<std::string> pieces;
};

Streamed write_script(const std::string& text, GenerateOptions options) {
  options.end_ids = {0};
  const ScriptModelImpl model(257, script_of(text));
  Streamed out;
  auto result = generate(model, {{1}}, options, &bytes_tokenizer(), [&](const TokenEvent& event) {
    out.pieces.emplace_back(event.text);
    return true;
  });
  out.row = std::move(result.rows[0]);
  return out;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

TEST(AnswerText, StreamsWholeCharactersOnly) {
  const std::string text = "né 中文 🌍!";
  const Streamed out = write_script(text, {});
  EXPECT_EQ(out.row.text, text);
  EXPECT_EQ(joined(out.pieces), text);
  EXPECT_EQ(out.row.finish, Finish::kEnd);
  EXPECT_EQ(out.row.tokens.size(), text.size() + 1);
  for (const std::string& piece : out.pieces) EXPECT_EQ(find_invalid_utf8(piece), std::string_view::npos);
}

TEST(AnswerText, StopStringsAreFoundAcrossTokens) {
  const Streamed out = write_script("one\ntwo\n\nthree", {.stop = {"THE END", "\n\n"}});
  EXPECT_EQ(out.row.text, "one\ntwo");
  EXPECT_EQ(joined(out.pieces), "one\ntwo");
  EXPECT_EQ(out.row.finish, Finish::kStop);
  EXPECT_EQ(out.row.tokens.size(), 9u);  // the stop string's own tokens stay
  EXPECT_EQ(out.pieces[3], "");          // this line end may begin a stop string
  EXPECT_EQ(out.pieces[4], "\nt");       // it does not
}

TEST(AnswerText, StopStringsMayHoldCharactersOfSeveralTokens) {
  EXPECT_EQ(write_script("光。暗。", {.stop = {"。"}}).row.text, "光");
}

TEST(AnswerText, WhatWasHeldBackComesAtTheEnd) {
  const Streamed limited = write_script("ab\n", {.max_new_tokens = 3, .stop = {"\n\n"}});
  EXPECT_EQ(limited.row.text, "ab\n");
  EXPECT_EQ(joined(limited.pieces), "ab\n");
  EXPECT_EQ(limited.row.finish, Finish::kLength);
  const Streamed ended = write_script("ab\n", {.stop = {"\n\n"}});
  EXPECT_EQ(ended.row.text, "ab\n");
  EXPECT_EQ(joined(ended.pieces), "ab\n");
  EXPECT_EQ(ended.row.finish, Finish::kEnd);
}

TEST(AnswerText, AHalfCharacterAtTheLimitIsReplaced) {
  const Streamed out = write_script("a中", {.max_new_tokens = 3});
  EXPECT_EQ(out.row.text, "a\uFFFD");
  EXPECT_EQ(joined(out.pieces), out.row.text);
}

TEST(AnswerText, ARowThatTheCallbackEndsKeepsItsText) {
  const ScriptModelImpl model(257, script_of("a\nb"));
  const auto row =
      generate(model, {{1}}, {.end_ids = {0}, .stop = {"\n\n"}}, &bytes_tokenizer(), [](const TokenEvent& event) {
        return event.id != bytes_tokenizer().ids("\n")[0];
      }).rows[0];
  EXPECT_EQ(row.text, "a\n");
  EXPECT_EQ(row.finish, Finish::kCancelled);
}

TEST(AnswerText, BeamsHaveTextAndStopStringsToo) {
  for (const std::string stop : {"\n\n", "never"}) {
    const ScriptModelImpl model(257, script_of("光\n\nb"));
    const auto row = generate(model, {{1}}, {.beams = 2, .end_ids = {0}, .stop = {stop}}, &bytes_tokenizer()).rows[0];
    EXPECT_EQ(row.text, stop == "never" ? "光\n\nb" : "光");
    EXPECT_EQ(row.finish, stop == "never" ? Finish::kEnd : Finish::kStop);
  }
}

}  // namespace
}  // namespace fovea
