// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/pattern.h"

#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/text/gpt2_split.h"

namespace fovea::text {
namespace {

using Words = std::vector<std::string>;

Words matches(std::string_view pattern, std::string_view text) {
  const Pattern parsed = Pattern::parse(pattern, "test");
  Words out;
  for (size_t at = 0; at < text.size();) {
    const Pattern::Match match = parsed.find(text, at);
    if (match.begin == Pattern::npos) break;
    out.emplace_back(text.substr(match.begin, match.end - match.begin));
    at = match.end;
  }
  return out;
}

TEST(Pattern, Repeats) {
  EXPECT_EQ(matches("a+b", "aab ab b"), (Words{"aab", "ab"}));
  EXPECT_EQ(matches("a+?", "aaa"), (Words{"a", "a", "a"}));
  EXPECT_EQ(matches("a++a", "aaa"), (Words{}));  // possessive: nothing is given back
  EXPECT_EQ(matches("x{2,3}", "xxxxx"), (Words{"xxx", "xx"}));
  EXPECT_EQ(matches("x{,2}y", "xxxy"), (Words{"xxy"}));
  EXPECT_EQ(matches("(?:ab)+c?", "ababc ab"), (Words{"ababc", "ab"}));
  EXPECT_EQ(matches("(ab){2}", "ababab"), (Words{"abab"}));
  EXPECT_EQ(matches("(a|ab)(c|bcd)", "abcd"), (Words{"abcd"}));
}

TEST(Pattern, SetsAndClasses) {
  EXPECT_EQ(matches(R"(\p{L}+)", "añ中9Я"), (Words{"añ中", "Я"}));
  EXPECT_EQ(matches(R"([^\s\p{L}\p{N}]+)", "a!? 9🙂b"), (Words{"!?", "🙂"}));
  EXPECT_EQ(matches(R"([\p{Lu}a-c\-]+)", "Ab-dÉ"), (Words{"Ab-", "É"}));
  EXPECT_EQ(matches(R"(\s+)", "a \u3000\tb\u200Bc"), (Words{" \u3000\t"}));
  EXPECT_EQ(matches(R"(\P{L}+)", "a1é-"), (Words{"1", "-"}));
  EXPECT_EQ(matches(R"([\x{4E00}-\x{9FFF}]|\u00e9)", "é中x"), (Words{"é", "中"}));
}

TEST(Pattern, LookAheadAndCase) {
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+)", "a   b "), (Words{"  ", " ", " "}));
  EXPECT_EQ(matches(R"(a(?=b))", "ab ac"), (Words{"a"}));
  EXPECT_EQ(matches("(?i:s|t)+", "sTt"), (Words{"sTt"}));
  EXPECT_EQ(matches(R"((?i:'s|'ll))", "'S 'lL 'ſ"), (Words{"'S", "'lL", "'ſ"}));
}

TEST(Pattern, Gpt2ByHandIsGpt2sPattern) {
  const Words texts = {"",          "hello world", " don't we'll I'Ve",  "a\n\n b",       "a \n\n\n", "  x  ",
                       "''s 'sing", "1st 2.5 ٣٤",  "中文 ab🙂cd !?", "\u3000\u3000x", "x\u00A0y", "'"};
  for (const std::string& text : texts) {
    Words by_hand;
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
      const char* after = gpt2_word_end(p, end);
      by_hand.emplace_back(p, after);
      p = after;
    }
    EXPECT_EQ(by_hand, matches(kGpt2Pattern, text)) << text;
  }
}

TEST(Pattern, RefusesWhatItDoesNotKnow) {
  for (const char* pattern : {"^a",         "a$",          R"(\bfoo)",
                              R"((?<=a)b)", "(?<name>a)",  "a{2}?",
                              "a{2}+",      R"((a)\1)",    R"(\p{Han})",
                              "[a&&b]",     "[[:alpha:]]", "(?x: a)",
                              "(?i:ss)",    "a{,}",        "a{}",
                              "(?i:é)",     R"(\h)",       "a**",
                              "(",          ")",           "[a",
                              "[]",         "[b-a]",       "*",
                              "a{3,1}",     "{",           R"(\x{110000})",
                              R"(\p{L)",    "a*",          "a|",
                              "(a*)*",      "(?:a?b?)+",   "\\",
                              R"(\xFF)",    "(?i:\\p{Lu})"}) {
    EXPECT_THROW(Pattern::parse(pattern, "test"), Error) << pattern;
  }
  EXPECT_THROW(Pattern::literal("", "test"), Error);
  EXPECT_THROW(Pattern::parse(std::string(1000, '(') + "a" + std::string(1000, ')'), "test"), Error);
  EXPECT_THROW(Pattern::parse("(((a{1000}b){1000}){1000})", "test"), Error);
}

TEST(Pattern, DeepRepeatIsAnErrorNotACrash) {
  const Pattern pattern = Pattern::parse("(?:ab)+", "test");
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "ab";
  EXPECT_THROW(pattern.find(text, 0), Error);
}

}  // namespace
}  // namespace fovea::text
