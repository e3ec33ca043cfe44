// Packed rows: each text once, positions anew, no label across texts.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/packing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/base/error.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

// Text i holds tokens 1000·i, 1000·i + 1, …
std::vector<std::vector<TokenId>> texts(int64_t count, int64_t longest) {
  std::vector<std::vector<TokenId>> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j <= 1 + random_below(longest, 2, 0, uint64_t(i)); ++j)
      out[size_t(i)].push_back(TokenId(1000 * i + j));
  return out;
}

void check_row(const Batch& batch, int64_t b, std::multiset<int64_t>& labels_seen) {
  const int64_t length = batch.lengths[b].item<int64_t>();
  int64_t document = -1;
  for (int64_t t = 0; t < batch.ids.size(1); ++t) {
    const int64_t id = batch.ids[b][t].item<int64_t>(), label = batch.labels[b][t].item<int64_t>();
    const int64_t here = batch.documents[b][t].item<int64_t>(), position = batch.positions[b][t].item<int64_t>();
    if (t >= length) {
      EXPECT_EQ(here, -1);
      EXPECT_EQ(label, kIgnore);
      continue;
    }
    if (here != document) {
      EXPECT_EQ(here, document + 1);
      EXPECT_EQ(position, 0);
      document = here;
    } else {
      EXPECT_EQ(position, batch.positions[b][t - 1].item<int64_t>() + 1);
      EXPECT_EQ(id, batch.ids[b][t - 1].item<int64_t>() + 1);
    }
    EXPECT_EQ(label, id + 1);
    labels_seen.insert(label);
  }
}

TEST(PackedTexts, EachLabelOncePerEpoch) {
  const auto source = texts(60, 25);
  PackedTexts data(source, {.context = 16, .batch_size = 4, .seed = 1});  // some texts are longer than a row
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int64_t> seen;
    int64_t tokens = 0;
    for (int64_t i = 0; i < data.batch_count(epoch); ++i) {
      const Batch batch = data.batch(epoch, i);
      for (int64_t b = 0; b < batch.ids.size(0); ++b) check_row(batch, b, seen);
      tokens += batch.tokens;
    }
    std::multiset<int64_t> want;
    for (const auto& text : source) want.insert(text.begin() + 1, text.end());
    EXPECT_EQ(seen, want);
    EXPECT_EQ(tokens, data.token_count());
  }
}

TEST(PackedTexts, FillsRowsWell) {
  PackedTexts data(texts(2000, 30), {.context = 64, .batch_size = 8});
  int64_t slots = 0;
  for (int64_t i = 0; i < data.batch_count(0); ++i) slots += data.batch(0, i).ids.numel();
  EXPECT_GT(double(data.token_count()) / double(slots), 0.97);
}

TEST(PackedTexts, ShufflesByEpochAndRepeatsBySeed) {
  PackedTexts a(texts(60, 9), {.context = 16}), b(texts(60, 9), {.context = 16});
  EXPECT_FALSE(at::equal(a.batch(0, 0).ids, a.batch(1, 0).ids));
  EXPECT_TRUE(at::equal(a.batch(0, 0).ids, b.batch(0, 0).ids));
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_EQ(a.vocabulary_needed(), 1000 * 59 + int64_t(texts(60, 9).back().size()));
}

TEST(PackedTexts, NothingToPredictIsAnError) {
  EXPECT_THROW(PackedTexts({}, {}), Error);
  EXPECT_THROW(PackedTexts({{1}, {}, {2}}, {}), Error);
}

}  // namespace
}  // namespace fovea
