// Pairs: the table's errors name file and line; batches hold what teacher forcing needs; buckets keep padding low.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/pairs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fovea/base/error.h"
#include "fovea/data/random.h"
#include "fovea/data/text_lines.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    folder_ = fs::temp_directory_path() / ("fovea_pairs_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }
  std::string file(const std::string& bytes) {
    write_file(folder_ / "pairs.tsv", bytes);
    return (folder_ / "pairs.tsv").string();
  }
  void expect_error(const std::string& bytes, const std::string& part) {
    const std::string path = file(bytes);
    try {
      read_pairs(path);
      ADD_FAILURE() << "no error; wanted: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(path + part), std::string::npos) << error.what();
    }
  }
  fs::path folder_;
};

TEST_F(Files, PairsAreRead) {
  const auto pairs = read_pairs(file("one\t一\r\n\ntwo words\t二 词\nlast\tfin"));
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].target, "一");
  EXPECT_EQ(pairs[1].source, "two words");
  EXPECT_EQ(pairs[1].where, (folder_ / "pairs.tsv:3").string());
  EXPECT_EQ(pairs[2].target, "fin");
}

TEST_F(Files, BadTablesNameFileAndLine) {
  expect_error("a\tb\nonly\nc\td\n", ":2: one column; wanted source<TAB>target");
  expect_error("a\tb\tc\n", ":1: 3 columns");
  expect_error("a\t\n", ":1: the target column is empty");
  expect_error("a\tb\n\tb\n", ":2: the source column is empty");
  expect_error("a\t \u00a0\n", ":1: the target column is empty");
  expect_error("", ": holds no pairs");
  expect_error("\n\n", ": holds no pairs");
  expect_error("a\t\xff\n", ": invalid UTF-8 at byte 2");
  EXPECT_THROW(read_pairs(folder_ / "absent.tsv"), Error);
}

TEST_F(Files, TextsMustHoldText) {
  EXPECT_EQ(read_texts({file("one\n"), file("one\n")}), "one\none\n");
  EXPECT_EQ(read_texts({file("one"), file("one")}), "one\none");  // two lines, not "oneone"
  for (const char* bytes : {"", " \n\n"}) {
    try {
      read_texts({file(bytes)});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find("pairs.tsv: the text is empty"), std::string::npos);
    }
  }
  EXPECT_THROW(read_texts({file("caf\xe9")}), Error);
}

TEST(TextLines, TrimmedOfAnyWhiteSpace) {
  EXPECT_EQ(trimmed(" \t\u3000\u00a0a b\u3000"), "a b");
  EXPECT_EQ(trimmed("\u3000 "), "");
  EXPECT_EQ(trimmed("猫"), "猫");
}

TEST(TextLines, SplitAtLineEnds) {
  EXPECT_EQ(split_lines("a\r\n\nb"), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split_lines("a\n"), (std::vector<std::string_view>{"a"}));
  EXPECT_TRUE(split_lines("").empty());
}

TEST(TextLines, TheTailIsWholeLines) {
  const std::string text = "line 1\nline 2\nline 3\nline 4\n";
  const auto [train, validation] = split_tail(text, 0.4, "a.txt");
  EXPECT_EQ(train, "line 1\nline 2\nline 3\n");
  EXPECT_EQ(validation, "line 4\n");
  EXPECT_THROW(split_tail(text, 0.01, "a.txt"), Error);
  EXPECT_THROW(split_tail("no line end", 0.5, "a.txt"), Error);
  EXPECT_THROW(split_tail(text, 0, "a.txt"), Error);
}

TEST(TextPairs, BatchesForTeacherForcing) {
  PairOptions options;
  options.buckets = {.batch_size = 2, .shuffle = false};
  options.begin = 1, options.end = 2, options.pad = 3;
  TextPairs data({{{10, 11}, {20}}, {{12}, {21, 22}}}, options);
  ASSERT_EQ(data.batch_count(0), 1);
  const Batch batch = data.batch(0, 0);
  EXPECT_TRUE(at::equal(batch.ids, at::tensor({10, 11, 2, 12, 2, 3}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(batch.lengths, at::tensor({3, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.target_ids, at::tensor({1, 20, 3, 1, 21, 22}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(batch.target_lengths, at::tensor({2, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({20, 2, -100, 21, 22, 2}, at::kLong).view({2, 3})));
  EXPECT_EQ(batch.tokens, 5);
  EXPECT_EQ(data.token_count(), 5);
  EXPECT_EQ(data.vocabulary_needed(), 23);
  EXPECT_EQ(data.source_vocabulary_needed(), 13);
  EXPECT_EQ(data.longest_row(), 3);

  options.source_end = 30, options.source_pad = 31;
  TextPairs apart({{{10, 11}, {20}}, {{12}, {21, 22}}}, options);
  const Batch other = apart.batch(0, 0);
  EXPECT_TRUE(at::equal(other.ids, at::tensor({10, 11, 30, 12, 30, 31}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(other.target_ids, batch.target_ids));
  EXPECT_TRUE(at::equal(other.labels, batch.labels));
  EXPECT_EQ(apart.vocabulary_needed(), 23);
  EXPECT_EQ(apart.source_vocabulary_needed(), 32);
  EXPECT_NE(apart.fingerprint(), data.fingerprint());
}

std::vector<int64_t> many_lengths(int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(1 + random_below(60, 4, 0, uint64_t(i)));
  return out;
}

TEST(Buckets, EachItemOnceWithinTheLimits) {
  const auto lengths = many_lengths(5000);
  const BucketOptions options{.batch_size = 30, .batch_tokens = 400, .pool = 1000, .seed = 2};
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    int64_t slots = 0, tokens = 0;
    for (const auto& batch : bucket_batches(lengths, options, epoch)) {
      int64_t longest = 0;
      for (const int64_t item : batch) {
        EXPECT_TRUE(seen.insert(item).second);
        longest = std::max(longest, lengths[size_t(item)]);
        tokens += lengths[size_t(item)];
      }
      EXPECT_LE(batch.size(), 30u);
      EXPECT_LE(longest * int64_t(batch.size()), 400);
      slots += longest * int64_t(batch.size());
    }
    EXPECT_EQ(seen.size(), 5000u);
    EXPECT_GT(double(tokens) / double(slots), 0.97);
  }
  EXPECT_EQ(bucket_batches(lengths, options, 1), bucket_batches(lengths, options, 1));
  EXPECT_NE(bucket_batches(lengths, options, 1), bucket_batches(lengths, options, 2));
}

TEST(Buckets, AnOverlongItemStandsAlone) {
  const auto batches = bucket_batches({500, 3, 3}, {.batch_tokens = 10, .shuffle = false}, 0);
  EXPECT_EQ(batches, (std::vector<std::vector<int64_t>>{{1, 2}, {0}}));
}

TEST(Buckets, LimitsMustMakeSense) {
  EXPECT_THROW(bucket_batches({1}, {}, 0), Error);
  EXPECT_THROW(bucket_batches({1}, {.batch_size = -1}, 0), Error);
  EXPECT_TRUE(bucket_batches({}, {.batch_size = 1}, 0).empty());
}

}  // namespace
}  // namespace fovea
