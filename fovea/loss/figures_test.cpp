// Accuracy, F1, BLEU, chrF, repetition and their intervals: values by hand. (Against the package sacrebleu:
// tests/parity/test_metrics.py.)
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/error.h"
#include "fovea/loss/chrf.h"
#include "fovea/loss/classification.h"
#include "fovea/loss/text_scores.h"

namespace fovea {
namespace {

using Words = std::vector<std::string>;

TEST(Classification, ThreeClassesByHand) {
  //                                              class 0: 2 of 3 right, 1 foreign; class 1: 1 of 2; class 2 never
  //                                              occurs
  const auto is = classification_figures({0, 0, 0, 1, 1}, {0, 0, 1, 1, 0}, 3);
  EXPECT_DOUBLE_EQ(is.accuracy, 0.6);
  EXPECT_DOUBLE_EQ(is.classes[0].precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(is.classes[0].recall, 2.0 / 3);
  EXPECT_DOUBLE_EQ(is.classes[1].f1, 0.5);
  EXPECT_EQ(is.classes[2].count, 0);
  EXPECT_DOUBLE_EQ(is.macro_f1, (2.0 / 3 + 0.5) / 2);
  EXPECT_EQ(is.confusion, (std::vector<std::vector<int64_t>>{{2, 1, 0}, {1, 1, 0}, {0, 0, 0}}));
  EXPECT_THROW(classification_figures({0}, {3}, 3), Error);
  EXPECT_THROW(classification_figures({0}, {}, 3), Error);
}

TEST(Bootstrap, TheIntervalOfAProportion) {
  std::vector<int64_t> truth(400, 1), predicted(400, 1);
  for (size_t i = 0; i < 80; ++i) predicted[i] = 0;
  const auto is = classification_intervals(truth, predicted, 2);
  const double deviation = std::sqrt(0.8 * 0.2 / 400);  // of a binomial proportion
  EXPECT_NEAR(is.accuracy.low, 0.8 - 1.96 * deviation, 0.01);
  EXPECT_NEAR(is.accuracy.high, 0.8 + 1.96 * deviation, 0.01);
  const auto again = classification_intervals(truth, predicted, 2),
             other = classification_intervals(truth, predicted, 2, {.seed = 2});
  EXPECT_EQ(is.accuracy.low, again.accuracy.low);
  EXPECT_TRUE(is.accuracy.low != other.accuracy.low || is.accuracy.high != other.accuracy.high ||
              is.macro_f1.high != other.macro_f1.high);
  const auto one = bootstrap(1, [](const auto& counts) { return double(counts[0]); });
  EXPECT_EQ(one.low, 1);
  EXPECT_EQ(one.high, 1);
  EXPECT_THROW(bootstrap(0, [](const auto&) { return 0.0; }), Error);
  EXPECT_THROW(bootstrap(1, [](const auto&) { return 0.0; }, {.confidence = 1}), Error);
}

TEST(SplitWords, Marks) {
  EXPECT_EQ(split_words("Don't stop, it's 3.14 (or 1,000)!", WordSplit::k13a),
            (Words{"Don't", "stop", ",", "it's", "3.14", "(", "or", "1,000", ")", "!"}));
  EXPECT_EQ(split_words("2019-20 well-known &quot;x&quot; a.b", WordSplit::k13a),
            (Words{"2019", "-", "20", "well-known", "\"", "x", "\"", "a", ".", "b"}));
  EXPECT_EQ(split_words("保存文件 file.txt，好。", WordSplit::kZh),
            (Words{"保", "存", "文", "件", "file", ".", "txt", "，", "好", "。"}));
  EXPECT_EQ(split_words("ab 好\u3000c", WordSplit::kChar), (Words{"a", "b", "好", "c"}));
  EXPECT_TRUE(split_words(" \t", WordSplit::k13a).empty());
  EXPECT_EQ(likely_split({"保存文件 OK", "好"}), WordSplit::kZh);
  EXPECT_EQ(likely_split({"Save the file 好"}), WordSplit::k13a);
  EXPECT_EQ(word_split("zh"), WordSplit::kZh);
  EXPECT_THROW(word_split("intl"), Error);
}

TEST(Bleu, ByHand) {
  // 1-grams 5 of 6, 2-grams 3 of 5, 3-grams 1 of 4, no 4-gram: half of 1 of 3.
  const Words have{"the", "cat", "sat", "on", "a", "mat"}, want{"the", "cat", "lay", "on", "a", "mat"};
  const Bleu is = bleu_of(count_bleu(have, want));
  EXPECT_DOUBLE_EQ(is.precisions[0], 500.0 / 6);
  EXPECT_DOUBLE_EQ(is.precisions[1], 60);
  EXPECT_DOUBLE_EQ(is.precisions[2], 25);
  EXPECT_DOUBLE_EQ(is.precisions[3], 100 * 0.5 / 3);
  EXPECT_NEAR(is.score, std::pow(500.0 / 6 * 60 * 25 * (50.0 / 3), 0.25), 1e-9);
  EXPECT_NEAR(bleu_of(count_bleu(want, want)).score, 100, 1e-9);
  EXPECT_EQ(bleu_of(count_bleu({}, want)).score, 0);
  EXPECT_EQ(bleu_of(count_bleu({"x", "y", "z", "u", "v"}, want)).score, 0);
  const Bleu brief = bleu_of(count_bleu({"the", "cat", "lay", "on"}, want));
  EXPECT_NEAR(brief.score, 100 * std::exp(1 - 6.0 / 4), 1e-9);
  // A word twice counts as often as the right text has it.
  EXPECT_EQ(count_bleu({"the", "the", "the"}, {"the", "cat"}).matches[0], 1);
}

TEST(Chrf, ByHand) {
  EXPECT_EQ(chrf_of(count_chrf("a b c", "abc")), 100);  // blanks do not count
  EXPECT_EQ(chrf_of(count_chrf("", "abc")), 0);
  // "ab" for "ac": length 1: 1 of 2 and 1 of 2; length 2: none. Precision and recall 1/4.
  EXPECT_NEAR(chrf_of(count_chrf("ab", "ac")), 25, 1e-9);
  // "a" for "ab": precision 1; recall 1/2; no pair in the text, so length 2 says nothing.
  EXPECT_NEAR(chrf_of(count_chrf("a", "ab")), 100 * 5 * 0.5 / (4 + 0.5), 1e-9);
}

TEST(TextScores, ManyTextsAddUp) {
  const auto is = score_translations({"a b c d e", "x"}, {"a b c d e", "y"}, WordSplit::k13a, {.draws = 100});
  EXPECT_EQ(is.texts, 2);
  EXPECT_NEAR(is.bleu.precisions[0], 500.0 / 6, 1e-9);
  EXPECT_LE(is.bleu_interval.low, is.bleu.score);
  EXPECT_GE(is.bleu_interval.high, is.bleu.score);
  EXPECT_THROW(score_translations({"a"}, {}, WordSplit::k13a), Error);
}

TEST(Diversity, ByHand) {
  const auto is = diversity_of({"a b a b a b a b", "c d"}, WordSplit::k13a);
  EXPECT_EQ(is.words, 10);
  EXPECT_DOUBLE_EQ(is.distinct[0], 4.0 / 10);
  EXPECT_DOUBLE_EQ(is.distinct[1], 3.0 / 8);
  EXPECT_DOUBLE_EQ(is.distinct[2], 2.0 / 6);
  EXPECT_DOUBLE_EQ(is.repetition, 3.0 / 5);  // abab, baba, then both again, and once more
  EXPECT_EQ(diversity_of({}, WordSplit::k13a).repetition, 0);
}

}  // namespace
}  // namespace fovea
