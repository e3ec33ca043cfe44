// Masked words: how many are chosen, what becomes of them, what never is, and that a run can go on.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/masking.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

// 0 padding, 1 opens, 2 closes, 3 the mask, 4 … 203 ordinary.
constexpr int64_t kOpen = 1, kClose = 2, kMask = 3, kFirst = 4, kWords = 200;

MaskingOptions masking_options(bool shuffle = true) {
  MaskingOptions out{.buckets = {.batch_size = 16, .shuffle = shuffle, .seed = 7}, .mask = kMask};
  for (int64_t i = 0; i < kWords; ++i) out.ordinary.push_back(TokenId(kFirst + i));
  return out;
}

std::vector<std::vector<TokenId>> masking_texts(int64_t count) {
  std::vector<std::vector<TokenId>> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back({kOpen});
    const int64_t length = 1 + random_below(60, 3, 0, uint64_t(i));
    for (int64_t t = 0; t < length; ++t)
      out.back().push_back(TokenId(kFirst + random_below(kWords, 3, 1 + uint64_t(i), uint64_t(t))));
    out.back().push_back(kClose);
  }
  return out;
}

TEST(MaskedTexts, FifteenInAHundredAndWhatBecomesOfThem) {
  MaskedTexts data(masking_texts(3000), masking_options());
  int64_t words = 0, chosen = 0, masks = 0, kept = 0, others = 0;
  for (int64_t i = 0; i < data.batch_count(0); ++i) {
    const Batch batch = data.batch(0, i);
    const auto counted = batch.labels.ne(kIgnore);
    const auto around = batch.labels.eq(kOpen).logical_or(batch.labels.eq(kClose)).logical_or(batch.labels.eq(0));
    EXPECT_FALSE(around.any().item<bool>());  // neither special tokens nor padding are ever asked for
    EXPECT_EQ(counted.sum().item<int64_t>(), batch.tokens);
    EXPECT_TRUE((counted.sum(1) >= 1).all().item<bool>());
    const at::Tensor in = batch.ids.masked_select(counted), out = batch.labels.masked_select(counted);
    masks += in.eq(kMask).sum().item<int64_t>();
    kept += in.eq(out).sum().item<int64_t>();
    others += in.ne(kMask).logical_and(in.ne(out)).sum().item<int64_t>();
    EXPECT_TRUE((in >= kMask).all().item<bool>());  // no special token is put in
    chosen += batch.tokens;
    words += (batch.lengths - 2).sum().item<int64_t>();
    EXPECT_TRUE(batch.ids.select(1, 0).eq(kOpen).all().item<bool>());
  }
  EXPECT_EQ(chosen, data.token_count());
  EXPECT_NEAR(double(chosen) / double(words), 0.15, 0.003);
  EXPECT_NEAR(double(masks) / double(chosen), 0.80, 0.015);
  EXPECT_NEAR(double(kept) / double(chosen), 0.10, 0.012);  // and one in 200 of the others
  EXPECT_NEAR(double(others) / double(chosen), 0.10, 0.012);
}

TEST(MaskedTexts, AFunctionOfSeedAndEpoch) {
  MaskedTexts a(masking_texts(50), masking_options()), b(masking_texts(50), masking_options());
  b.batch(3, 1);  // another way there
  const Batch one = a.batch(2, 1), two = b.batch(2, 1);
  EXPECT_TRUE(at::equal(one.ids, two.ids));
  EXPECT_TRUE(at::equal(one.labels, two.labels));
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  MaskingOptions other = masking_options();
  other.buckets.seed = 8;
  EXPECT_NE(MaskedTexts(masking_texts(50), other).fingerprint(), a.fingerprint());
  // Unshuffled, so that only the choice differs between epochs.
  MaskedTexts fixed(masking_texts(50), masking_options(false));
  EXPECT_FALSE(at::equal(fixed.batch(0, 0).labels, fixed.batch(1, 0).labels));
  EXPECT_EQ(fixed.batch(0, 0).tokens, fixed.batch(1, 0).tokens);
}

TEST(MaskedTexts, ShortAndEmptyTexts) {
  MaskedTexts data({{kOpen, kClose}, {kOpen, 5, kClose}, {kOpen, kMask, kClose}}, masking_options(false));
  ASSERT_EQ(data.batch_count(0), 1);
  EXPECT_TRUE(at::equal(data.batch(0, 0).labels, at::tensor({-100, 5, -100}, at::kLong).view({1, 3})));
  EXPECT_EQ(data.longest_row(), 3);
  EXPECT_EQ(data.vocabulary_needed(), kFirst + kWords);
  EXPECT_THROW(MaskedTexts({{kOpen, kClose}}, masking_options()), Error);
  MaskingOptions wrong = masking_options();
  wrong.ordinary.push_back(kMask);
  EXPECT_THROW(MaskedTexts(masking_texts(2), wrong), Error);
  wrong = masking_options();
  wrong.part = 0;
  EXPECT_THROW(MaskedTexts(masking_texts(2), wrong), Error);
}

}  // namespace
}  // namespace fovea
