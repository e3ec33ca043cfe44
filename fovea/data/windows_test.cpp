// Windows of a token stream: labels are the next tokens, epochs cover the stream, errors name the text.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/windows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "fovea/base/error.h"

namespace fovea {
namespace {

std::vector<TokenId> count_to(int64_t size) {
  std::vector<TokenId> out(static_cast<size_t>(size));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(TokenWindows, LabelsAreTheNextTokens) {
  for (const auto order : {WindowOrder::kShuffled, WindowOrder::kRandom, WindowOrder::kConsecutive}) {
    TokenWindows data(count_to(103), {.context = 5, .batch_size = 4, .order = order, .seed = 1});
    for (int64_t i = 0; i < data.batch_count(2); ++i) {
      const Batch batch = data.batch(2, i);
      const at::Tensor counts = batch.labels != kIgnore;
      EXPECT_EQ(counts.sum().item<int64_t>(), batch.tokens);
      EXPECT_TRUE(at::equal(batch.labels.masked_select(counts), (batch.ids + 1).masked_select(counts)));
      EXPECT_TRUE(at::equal(batch.ids.narrow(1, 1, 4).masked_select(counts.narrow(1, 1, 4)),
                            batch.labels.narrow(1, 0, 4).masked_select(counts.narrow(1, 1, 4))));
    }
  }
}

// Every label of the stream once, apart from what the random start leaves at the two ends.
TEST(TokenWindows, AShuffledEpochSeesEachTokenOnce) {
  TokenWindows data(count_to(1000), {.context = 7, .batch_size = 4, .seed = 3});
  std::set<int64_t> starts;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    std::multiset<int64_t> labels;
    int64_t first = 1000;
    for (int64_t i = 0; i < data.batch_count(epoch); ++i) {
      const at::Tensor flat = data.batch(epoch, i).labels.flatten();
      for (int64_t j = 0; j < flat.numel(); ++j) {
        labels.insert(flat[j].item<int64_t>());
        first = std::min(first, flat[j].item<int64_t>());
      }
    }
    EXPECT_EQ(std::set<int64_t>(labels.begin(), labels.end()).size(), labels.size());
    EXPECT_GE(labels.size(), 999u - 2 * 6);
    starts.insert(first);
  }
  EXPECT_GT(starts.size(), 3u);  // cut anew
}

TEST(TokenWindows, RandomWindowsReachBothEnds) {
  TokenWindows data(count_to(12), {.context = 5, .batch_size = 1, .order = WindowOrder::kRandom});
  std::set<int64_t> starts;
  for (int64_t epoch = 0; epoch < 100; ++epoch) starts.insert(data.batch(epoch, 0).ids[0][0].item<int64_t>());
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(TokenWindows, ConsecutiveWindowsMeasureEveryToken) {
  TokenWindows data(count_to(18), {.context = 5, .batch_size = 2, .order = WindowOrder::kConsecutive});
  ASSERT_EQ(data.batch_count(0), 2);
  EXPECT_EQ(data.token_count(), 17);
  const Batch first = data.batch(0, 0), last = data.batch(0, 1);
  EXPECT_FALSE(first.lengths.defined());
  EXPECT_TRUE(at::equal(last.lengths, at::tensor({5, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(last.ids[1], at::tensor({15, 16, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(last.labels[1], at::tensor({16, 17, -100, -100, -100}, at::kLong)));
  EXPECT_EQ(first.tokens + last.tokens, 17);
  // A window longer than the text is as long as the text.
  TokenWindows whole(count_to(18), {.context = 1 << 30, .batch_size = 2, .order = WindowOrder::kConsecutive});
  EXPECT_TRUE(at::equal(whole.batch(0, 0).ids, at::arange(17).unsqueeze(0)));
}

// Row b of a batch goes on where row b of the one before ended; every label once, whatever divides evenly.
TEST(TokenWindows, StreamsGoOnFromBatchToBatch) {
  for (const auto& [size, batch] : {std::pair{41, 4}, {42, 4}, {18, 4}, {5, 3}, {3, 9}, {2, 1}, {100, 7}}) {
    TokenWindows data(count_to(size), {.context = 5, .batch_size = batch, .order = WindowOrder::kStreams});
    EXPECT_EQ(data.token_count(), size - 1);
    std::multiset<int64_t> labels;
    at::Tensor last;
    for (int64_t i = 0; i < data.batch_count(3); ++i) {
      const Batch b = data.batch(3, i);
      EXPECT_EQ(b.continues, i > 0);
      EXPECT_EQ(b.ids.size(0), std::min(batch, size - 1));
      EXPECT_LE(b.ids.size(1), 5);
      const at::Tensor counts = b.labels != kIgnore;
      EXPECT_EQ(counts.sum().item<int64_t>(), b.tokens);
      EXPECT_TRUE(!b.lengths.defined() || at::equal(b.lengths, counts.sum(1)));
      EXPECT_TRUE(at::equal(b.labels.masked_select(counts), (b.ids + 1).masked_select(counts)));
      if (i > 0) {
        const at::Tensor on = counts.select(1, 0);
        EXPECT_TRUE(at::equal(b.ids.select(1, 0).masked_select(on), last.masked_select(on)));
      }
      last = b.labels.select(1, b.labels.size(1) - 1);
      const at::Tensor seen = b.labels.masked_select(counts);
      for (int64_t j = 0; j < seen.numel(); ++j) labels.insert(seen[j].item<int64_t>());
    }
    EXPECT_EQ(labels.size(), size_t(size - 1));
    EXPECT_EQ(std::set<int64_t>(labels.begin(), labels.end()).size(), labels.size());
  }
}

TEST(TokenWindows, SameSeedSameBatches) {
  const WindowOptions options{.context = 5, .batch_size = 3, .seed = 4};
  WindowOptions other = options;
  other.seed = 5;
  TokenWindows a(count_to(200), options), b(count_to(200), options), c(count_to(200), other);
  EXPECT_TRUE(at::equal(a.batch(1, 2).ids, b.batch(1, 2).ids));
  EXPECT_FALSE(at::equal(a.batch(1, 2).ids, c.batch(1, 2).ids));
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_NE(a.fingerprint(), c.fingerprint());
  EXPECT_NE(a.fingerprint(), TokenWindows(count_to(201), options).fingerprint());
}

TEST(TokenWindows, ATextOfExactlyOneWindow) {
  TokenWindows data(count_to(6), {.context = 5, .batch_size = 3});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_EQ(data.batch_count(epoch), 1);
    EXPECT_TRUE(at::equal(data.batch(epoch, 0).ids, at::arange(5, at::kLong).view({1, 5})));
  }
  EXPECT_EQ(data.vocabulary_needed(), 6);
  EXPECT_EQ(data.longest_row(), 5);
}

template <class Call>
void expect_error(Call call, ErrorKind kind, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(TokenWindows, Errors) {
  expect_error([] { TokenWindows({}, {}, "a.txt"); }, ErrorKind::kInput, "a.txt: the text is empty");
  expect_error([] { TokenWindows(count_to(5), {.context = 5}, "a.txt"); }, ErrorKind::kInput,
               "a.txt: the text has 5 tokens, wanted a window of 5 and the token to predict after it");
  expect_error([] { TokenWindows(count_to(5), {.context = INT64_MAX}, "a.txt"); }, ErrorKind::kInput,
               "wanted a window of 9223372036854775807");
  EXPECT_GE(TokenWindows(count_to(5), {.context = 2, .batch_size = INT64_MAX}).batch(0, 0).ids.size(0), 1);
  EXPECT_EQ(TokenWindows(count_to(5), {.context = 2, .batch_size = INT64_MAX, .order = WindowOrder::kStreams})
                .batch(0, 0)
                .ids.size(0),
            4);
  expect_error([] { TokenWindows(count_to(5), {.context = 0}); }, ErrorKind::kConfig, "context is 0");
  expect_error([] { TokenWindows(count_to(5), {.context = 2, .batch_size = 0}); }, ErrorKind::kConfig,
               "batch_size is 0");
  expect_error([] { window_order("shuffle"); }, ErrorKind::kConfig, "did you mean \"shuffled\"?");
}

}  // namespace
}  // namespace fovea
