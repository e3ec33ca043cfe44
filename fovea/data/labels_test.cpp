// Labels: the table's errors name file and line; batches hold each text with its class.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/labels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class LabelFiles : public ::testing::Test {
 protected:
  LabelFiles() {
    folder_ = fs::temp_directory_path() / ("fovea_labels_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~LabelFiles() override { fs::remove_all(folder_); }
  std::vector<LabelledText> read(const std::string& bytes, LabelColumn column = LabelColumn::kFirst) {
    write_file(folder_ / "labels.tsv", bytes);
    return read_labels(folder_ / "labels.tsv", column);
  }
  void expect_error(const std::string& bytes, const std::string& part, LabelColumn column = LabelColumn::kFirst) {
    try {
      read(bytes, column);
      ADD_FAILURE() << "no error; wanted: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find((folder_ / "labels.tsv").string() + part), std::string::npos)
          << error.what();
    }
  }
  fs::path folder_;
};

TEST_F(LabelFiles, TextsAreRead) {
  const auto texts = read("\xEF\xBB\xBFgood\tone\r\n\nvery bad\ttwo words\n");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].label, "good");
  EXPECT_EQ(texts[0].text, "one");
  EXPECT_EQ(texts[1].label, "very bad");
  EXPECT_EQ(texts[1].second, "");
  EXPECT_EQ(texts[1].where, (folder_ / "labels.tsv:3").string());
}

TEST_F(LabelFiles, PairsAndTheOtherColumn) {
  const auto pairs = read("yes\ta\tb\nno\tc\td\n");
  EXPECT_EQ(pairs[1].label + pairs[1].text + pairs[1].second, "nocd");
  const auto last = read("a\tb\tyes\nc\td\tno\n", LabelColumn::kLast);
  EXPECT_EQ(last[1].label + last[1].text + last[1].second, "nocd");
  EXPECT_EQ(read("a\tyes\n", LabelColumn::kLast)[0].label, "yes");
}

TEST_F(LabelFiles, BadTablesNameFileAndLine) {
  expect_error("a\tb\nonly\n", ":2: one column; wanted label<TAB>text");
  expect_error("only\n", ":1: one column; wanted text<TAB>label", LabelColumn::kLast);
  expect_error("a\tb\tc\td\n", ":1: 4 columns");
  expect_error("a\tb\nx\ty\tz\n", ":2: 3 columns, where the lines before have 2");
  expect_error("\tb\n", ":1: the label is empty");
  expect_error("a\t\n", ":1: the text is empty");
  expect_error("a\tb\t\n", ":1: the second text is empty");
  expect_error("good \tb\n", ":1: the label \"good \" begins or ends with a blank");
  expect_error("a\t \u3000\n", ":1: the text is empty");
  expect_error("好\u3000\tb\n", ":1: the label \"好\u3000\" begins or ends with a blank");
  expect_error("", ": holds no texts");
  expect_error("a\t\xff\n", ": invalid UTF-8 at byte 2");
}

TEST(ClassNames, SortedAndAtLeastTwo) {
  EXPECT_EQ(class_names({{"b", "x"}, {"a", "y"}, {"b", "z"}}, "f"), (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW(class_names({{"b", "x"}, {"b", "y"}}, "f"), Error);
  EXPECT_THROW(class_names({{"a", "x"}, {"b", "x"}, {"c", "x"}}, "f"), Error);  // the wrong column
}

TEST(LabelledTexts, Batches) {
  LabelledTexts data({{{2, 10, 3}, {}, 1}, {{2, 3}, {}, 0}, {{2, 10, 11, 3}, {0, 0, 1, 1}, 1}},
                     {.buckets = {.batch_size = 2, .shuffle = false}, .pad = 9});
  ASSERT_EQ(data.batch_count(0), 2);
  const Batch first = data.batch(0, 0), second = data.batch(0, 1);
  EXPECT_TRUE(at::equal(first.ids, at::tensor({2, 3, 9, 2, 10, 3}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(first.lengths, at::tensor({2, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(first.labels, at::tensor({0, 1}, at::kLong)));
  EXPECT_FALSE(first.type_ids.defined());
  EXPECT_TRUE(at::equal(second.type_ids, at::tensor({0, 0, 1, 1}, at::kLong).view({1, 4})));
  EXPECT_EQ(first.tokens + second.tokens, data.token_count());
  EXPECT_EQ(data.vocabulary_needed(), 12);
  EXPECT_EQ(data.longest_row(), 4);
  EXPECT_THROW(LabelledTexts({}, {.buckets = {.batch_size = 2}}), Error);
}

TEST(LabelledTexts, TheFingerprintSeesLabelsAndTypes) {
  const auto print = [](std::vector<LabelledTokens> texts) {
    return LabelledTexts(std::move(texts), {.buckets = {.batch_size = 1}}).fingerprint();
  };
  EXPECT_EQ(print({{{1, 2}, {}, 0}}), print({{{1, 2}, {}, 0}}));
  EXPECT_NE(print({{{1, 2}, {}, 0}}), print({{{1, 2}, {}, 1}}));
  EXPECT_NE(print({{{1, 2}, {}, 0}}), print({{{1, 2}, {0, 1}, 0}}));
}

}  // namespace
}  // namespace fovea
