// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/cache.h"

#include "tests/gradient_check.h"

namespace fovea {
namespace {

// Key t of every row and head holds t (+ `shift`); values are twice as wide and hold its double.
torch::Tensor keys(int64_t from, int64_t to, double shift = 0, int64_t batch = 2) {
  return (torch::arange(from, to, torch::kFloat) + shift).view({1, 1, -1, 1}).expand({batch, 3, to - from, 4});
}
torch::Tensor values(int64_t from, int64_t to, double shift = 0, int64_t batch = 2) {
  return 2 * keys(from, to, shift, batch).repeat({1, 1, 1, 2});
}
auto add(LayerCache& cache, int64_t from, int64_t to, double shift = 0) {
  return cache.append(keys(from, to, shift), values(from, to, shift));
}

TEST(Cache, HoldsAllThatWasAppendedWhileItGrows) {
  LayerCache cache;
  EXPECT_TRUE(cache.empty());
  EXPECT_FALSE(cache.key().defined());
  int64_t length = 0;
  for (const int64_t count : {5, 1, 1, 70, 1, 0, 200, 1}) {
    const auto [k, v] = add(cache, length, length + count);
    length += count;
    EXPECT_EQ(cache.length(), length);
    EXPECT_TRUE(torch::equal(k, keys(0, length)));
    EXPECT_TRUE(torch::equal(v, values(0, length)));
  }
  EXPECT_TRUE(torch::equal(cache.key(), keys(0, length)));
}

TEST(Cache, AppendingIsCheap) {
  LayerCache cache;
  add(cache, 0, 100);
  int64_t moves = 0;
  for (int64_t t = 100; t < 1100; ++t) {
    const auto before = cache.key().storage().unsafeGetStorageImpl();
    moves += add(cache, t, t + 1).first.storage().unsafeGetStorageImpl() != before;
  }
  EXPECT_LE(moves, 5);
}

TEST(Cache, ViewsKeepTheirContent) {
  LayerCache cache;
  const auto early = add(cache, 0, 4);
  add(cache, 4, 100);  // grows
  EXPECT_TRUE(torch::equal(early.first, keys(0, 4)));
  const auto late = add(cache, 100, 102);
  cache.crop(3);
  EXPECT_TRUE(torch::equal(cache.key(), keys(0, 3)));
  const auto other = add(cache, 3, 5, 0.5);  // the slots that `late` still shows
  EXPECT_TRUE(torch::equal(late.first, keys(0, 102)));
  EXPECT_TRUE(torch::equal(other.second, torch::cat({values(0, 3), values(3, 5, 0.5)}, 2)));
}

TEST(Cache, CroppedSlotsAreUsedAgainWhenNobodyLooks) {
  LayerCache cache;
  add(cache, 0, 10);
  const auto* storage = cache.key().storage().unsafeGetStorageImpl();
  cache.crop(4);
  add(cache, 4, 6, 0.5);
  EXPECT_EQ(cache.key().storage().unsafeGetStorageImpl(), storage);
  EXPECT_TRUE(torch::equal(cache.key(), torch::cat({keys(0, 4), keys(4, 6, 0.5)}, 2)));
}

TEST(Cache, CopiesGoTheirOwnWays) {
  LayerCache prompt;
  add(prompt, 0, 6);
  LayerCache left = prompt, right = prompt;
  add(left, 6, 8, 0.25);
  add(right, 6, 9, 0.5);
  add(left, 8, 9, 0.25);
  EXPECT_TRUE(torch::equal(prompt.key(), keys(0, 6)));
  EXPECT_TRUE(torch::equal(left.key(), torch::cat({keys(0, 6), keys(6, 9, 0.25)}, 2)));
  EXPECT_TRUE(torch::equal(right.key(), torch::cat({keys(0, 6), keys(6, 9, 0.5)}, 2)));
}

TEST(Cache, ReorderMovesRows) {
  LayerCache cache;
  const auto rows = torch::arange(3, torch::kFloat).view({3, 1, 1, 1});
  cache.append(rows.expand({3, 2, 4, 5}), rows.expand({3, 2, 4, 6}));
  cache.reorder(torch::tensor({2, 0, 2, 1}, torch::kLong));
  const auto wanted = torch::tensor({2.f, 0.f, 2.f, 1.f}).view({4, 1, 1, 1});
  EXPECT_TRUE(torch::equal(cache.key(), wanted.expand({4, 2, 4, 5})));
  const auto [k, v] = cache.append(wanted.expand({4, 2, 1, 5}), wanted.expand({4, 2, 1, 6}));
  EXPECT_TRUE(torch::equal(k, wanted.expand({4, 2, 5, 5})));
  EXPECT_TRUE(torch::equal(v, wanted.expand({4, 2, 5, 6})));
}

TEST(Cache, WhatGoesInIsDetached) {
  LayerCache cache;
  const auto k = keys(0, 2).clone().requires_grad_();
  const auto [held, value] = cache.append(k, values(0, 2));
  EXPECT_FALSE(held.requires_grad());
  cache.set(k, k);
  EXPECT_FALSE(cache.key().requires_grad());
}

TEST(Cache, InferenceModeMayEndHalfway) {
  LayerCache cache;
  {
    const c10::InferenceMode inference;
    add(cache, 0, 3);
  }
  add(cache, 3, 5);
  {
    const c10::InferenceMode inference;
    add(cache, 5, 90);
    cache.reorder(torch::tensor({1, 0}, torch::kLong));
  }
  add(cache, 90, 91);
  EXPECT_TRUE(torch::equal(cache.key(), keys(0, 91)));
}

TEST(Cache, Errors) {
  LayerCache cache;
  add(cache, 0, 3);
  const auto message = error_of([&] { cache.append(keys(3, 4, 0, 1), values(3, 4, 0, 1)); });
  EXPECT_NE(message.find("key is [1, 3, 1, 4] Float, the cache holds [2, 3, ·, 4] Float"), std::string::npos)
      << message;
  EXPECT_NE(error_of([&] { cache.append(keys(3, 4).to(torch::kDouble), values(3, 4)); }).find("Double"),
            std::string::npos);
  EXPECT_NE(error_of([&] { cache.append(keys(3, 4), values(3, 5)); }).find("wanted [B, G, T, D]"), std::string::npos);
  EXPECT_NE(error_of([&] { cache.crop(4); }).find("crop to 4 keys, wanted 0 … 3"), std::string::npos);
  EXPECT_NE(error_of([&] {
              cache.reorder(torch::tensor({0, 2}, torch::kLong));
            }).find("outside 0 … 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { cache.reorder(torch::zeros({2})); }).find("rows are [2] Float, wanted Long [B]"),
            std::string::npos);
  EXPECT_TRUE(torch::equal(cache.key(), keys(0, 3)));  // nothing was moved
  cache.crop(0);
  EXPECT_TRUE(torch::equal(cache.append(keys(0, 2, 0, 1), values(0, 2, 0, 1)).first, keys(0, 2, 0, 1)));
}

TEST(Cache, KeepsTheNewestAndStaysSmall) {
  LayerCache cache;
  const auto early = add(cache, 0, 5);
  cache.keep_newest(3);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_TRUE(torch::equal(cache.key(), keys(2, 5)));
  cache.keep_newest(9);
  EXPECT_EQ(cache.length(), 3);
  for (int64_t t = 5; t < 2000; ++t) {
    const auto [k, v] = add(cache, t, t + 1);
    EXPECT_TRUE(torch::equal(v, values(t - 3, t + 1)));
    cache.keep_newest(3);
  }
  EXPECT_TRUE(torch::equal(early.first, keys(0, 5)));
  EXPECT_LT(cache.key().storage().nbytes(), size_t(2 * 3 * 4 * 200) * sizeof(float));
  LayerCache copy = cache;
  add(cache, 2000, 2001);
  add(copy, 2000, 2001, 0.5);
  EXPECT_TRUE(torch::equal(cache.key(), keys(1997, 2001)));
  EXPECT_TRUE(torch::equal(copy.key(), torch::cat({keys(1997, 2000), keys(2000, 2001, 0.5)}, 2)));
  cache.crop(2);
  EXPECT_TRUE(torch::equal(cache.value(), values(1997, 1999)));
  cache.reorder(torch::tensor({1}, torch::kLong));
  EXPECT_TRUE(torch::equal(cache.key(), keys(1997, 1999, 0, 1)));
  cache.keep_newest(0);
  EXPECT_TRUE(cache.empty());
  EXPECT_NE(error_of([&] { cache.keep_newest(-1); }).find("the newest -1 keys"), std::string::npos);
}

TEST(Cache, AStateTakesThePlaceOfKeys) {
  LayerCache cache;
  cache.set_state(torch::arange(2, torch::kFloat).view({2, 1}).requires_grad_(), 3);
  EXPECT_EQ(cache.length(), 3);
  EXPECT_FALSE(cache.state().requires_grad());
  LayerCache copy = cache;
  copy.set_state(torch::zeros({2, 1}), 4);
  cache.reorder(torch::tensor({1, 1, 0}, torch::kLong));
  EXPECT_TRUE(torch::equal(cache.state().flatten(), torch::tensor({1.f, 1.f, 0.f})));
  EXPECT_NE(error_of([&] { cache.crop(2); }).find("holds all 3 in one sum"), std::string::npos);
  cache.crop(3);
  cache.crop(0);
  EXPECT_FALSE(cache.state().defined());
  EXPECT_TRUE(torch::equal(copy.state(), torch::zeros({2, 1})));
}

TEST(DecoderState, CropsAndReordersEverything) {
  DecoderState state;
  state.self.resize(2);
  state.cross.resize(2);
  for (auto& layer : state.self) add(layer, 0, 4);
  for (auto& layer : state.cross) layer.set(keys(0, 6), values(0, 6));
  state.start = torch::tensor({0, 1}, torch::kLong);
  state.memory = torch::arange(2, torch::kFloat).view({2, 1, 1});
  state.memory_lengths = torch::tensor({6, 5}, torch::kLong);
  state.crop(3);
  EXPECT_EQ(state.length(), 3);
  EXPECT_EQ(state.cross[0].length(), 6);
  state.reorder(torch::tensor({1, 1, 0}, torch::kLong));
  EXPECT_EQ(state.self[1].key().size(0), 3);
  EXPECT_EQ(state.cross[1].value().size(0), 3);
  EXPECT_TRUE(torch::equal(state.start, torch::tensor({1, 1, 0}, torch::kLong)));
  EXPECT_TRUE(torch::equal(state.memory.flatten(), torch::tensor({1.f, 1.f, 0.f})));
  EXPECT_TRUE(torch::equal(state.memory_lengths, torch::tensor({5, 5, 6}, torch::kLong)));
}

}  // namespace
}  // namespace fovea
