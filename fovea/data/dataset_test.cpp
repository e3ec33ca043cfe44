// Random numbers, the sampler and the loader: pure functions of their integers, the same on every platform.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/dataset.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "fovea/base/error.h"
#include "fovea/data/random.h"
#include "fovea/data/sampler.h"
#include "fovea/data/windows.h"
#include "fovea/io/json.h"

namespace fovea {
namespace {

TEST(Random, IsPinnedForAllPlatforms) {
  EXPECT_EQ(random_bits(1, 2, 3), 0x6e614ef2ede4f168u);
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (uint64_t stream = 0; stream < 8; ++stream)
      for (uint64_t index = 0; index < 8; ++index) seen.insert(random_bits(seed, stream, index));
  EXPECT_EQ(seen.size(), 512u);
  EXPECT_EQ(random_permutation(8, 1, 0), (std::vector<int64_t>{1, 0, 4, 7, 3, 6, 5, 2}));
}

TEST(Random, IsUniform) {
  std::vector<int64_t> counts(10);
  for (uint64_t i = 0; i < 100000; ++i) ++counts[size_t(random_below(10, 7, 3, i))];
  for (const int64_t count : counts) EXPECT_NEAR(double(count), 10000, 400);  // 4 standard deviations
}

TEST(Sampler, EveryEpochIsAPermutationOfItsOwn) {
  for (const int64_t size : {1, 2, 3, 17, 1000}) {
    Sampler sampler(size, 5);
    std::set<std::vector<int64_t>> orders;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<int64_t> order = sampler.order(epoch);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < size; ++i) EXPECT_EQ(order[size_t(i)], i);
    }
    if (size >= 17) {
      EXPECT_EQ(orders.size(), 4u);
    }
  }
}

TEST(Sampler, AnyPlaceCanBeAskedFor) {
  Sampler forward(100, 5), backward(100, 5), other_seed(100, 6);
  std::vector<int64_t> a, b;
  for (int64_t i = 0; i < 300; ++i) a.push_back(forward.at(i / 100, i % 100));
  for (int64_t i = 299; i >= 0; --i) b.push_back(backward.at(i / 100, i % 100));
  std::reverse(b.begin(), b.end());
  EXPECT_EQ(a, b);
  EXPECT_NE(forward.order(0), other_seed.order(0));
  EXPECT_EQ(Sampler(10, 5, false).at(3, 7), 7);
}

TEST(Sampler, RefusesPlacesOutside) {
  EXPECT_THROW(Sampler(0, 1), Error);
  EXPECT_THROW(Sampler(3, 1).at(0, 3), Error);
  EXPECT_THROW(Sampler(3, 1).at(-1, 0), Error);
}

std::shared_ptr<Dataset> toy() {
  std::vector<TokenId> tokens(103);
  std::iota(tokens.begin(), tokens.end(), 0);
  return std::make_shared<TokenWindows>(tokens, WindowOptions{.context = 5, .batch_size = 3, .seed = 9});
}

TEST(Loader, ResumesFromTwoIntegers) {
  Loader whole(toy());
  for (int step = 0; step < 40; ++step) {
    nlohmann::json saved = nlohmann::json::object();
    write_to_json(whole.state(), saved);
    LoaderState state;
    fill_from_json(state, nlohmann::json::parse(saved.dump()), "state");
    Loader resumed(toy(), state);
    const Batch a = whole.next(), b = resumed.next();
    EXPECT_TRUE(at::equal(a.ids, b.ids)) << "step " << step;
  }
  EXPECT_GT(whole.state().epoch, 3);
}

TEST(Loader, ARangeForGivesTheRestOfTheEpoch) {
  Loader loader(toy());
  loader.next();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    int64_t batches = epoch == 0 ? 1 : 0;
    for (const Batch& batch : loader) {
      EXPECT_GT(batch.tokens, 0);
      ++batches;
    }
    EXPECT_EQ(batches, loader.dataset().batch_count(epoch));
    EXPECT_EQ(loader.state().epoch, epoch + 1);
  }
}

TEST(Loader, RefusesAStateOfOtherData) {
  EXPECT_THROW(Loader(toy(), LoaderState{0, 1000}), Error);
  EXPECT_THROW(Loader(toy(), LoaderState{-1, 0}), Error);
}

TEST(Fingerprint, SeesTokensOrderAndLimits) {
  const auto of = [](std::vector<std::vector<TokenId>> lists) {
    Fingerprint out;
    for (const auto& list : lists) out.add(list);
    return out.value();
  };
  const std::set<uint64_t> seen = {of({}),         of({{}}),         of({{1, 2}}), of({{2, 1}}),
                                   of({{1}, {2}}), of({{1, 2}, {}}), of({{0}}),    of({{0, 0}})};
  EXPECT_EQ(seen.size(), 8u);
}

}  // namespace
}  // namespace fovea
