// What happens to a picture, counted over many seeds, and by hand where it can be told.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/augmentation.h"

#include <ATen/ATen.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/io_support.h"

namespace fovea {
namespace {

using testing_support::error_of;

// No pixel is black, no two are alike.
at::Tensor numbered_pixels(int64_t Y, int64_t X) { return at::arange(1, 1 + Y * X).view({1, Y, X}).to(at::kByte); }

TEST(Augmentation, FlippedOrNotInTheGivenPart) {
  const at::Tensor image = numbered_pixels(3, 4), mirrored = image.flip({2});
  int flipped = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const at::Tensor out = augmented(image, {.flip = 0.3}, seed);
    const bool is_mirrored = at::equal(out, mirrored);
    EXPECT_TRUE(is_mirrored || at::equal(out, image));
    flipped += is_mirrored;
  }
  EXPECT_NEAR(flipped, 600, 80);  // four deviations
  EXPECT_TRUE(at::equal(augmented(image, {.flip = 1}, 7), mirrored));
  EXPECT_TRUE(at::equal(augmented(image, {}, 7), image));
}

TEST(Augmentation, ShiftedToEveryPlaceEquallyOften) {
  const at::Tensor image = numbered_pixels(4, 5);
  std::map<std::pair<int64_t, int64_t>, int> places;
  for (uint64_t seed = 0; seed < 1800; ++seed) {
    const at::Tensor out = augmented(image, {.shift = 1}, seed);
    // Where the pixel in the middle went says how far all did.
    const at::Tensor middle = out[0].eq(image[0][2][2].item<int>()).nonzero();
    const int64_t down = middle[0][0].item<int64_t>() - 2, right = middle[0][1].item<int64_t>() - 2;
    ++places[{down, right}];
    if (seed > 50) continue;
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t x = 0; x < 5; ++x) {
        const bool inside = y - down >= 0 && y - down < 4 && x - right >= 0 && x - right < 5;
        ASSERT_EQ(out[0][y][x].item<int>(), inside ? image[0][y - down][x - right].item<int>() : 0);
      }
  }
  EXPECT_EQ(places.size(), 9u);
  for (const auto& [place, count] : places) EXPECT_NEAR(count, 200, 55) << place.first << ", " << place.second;
  EXPECT_TRUE(augmented(image, {.shift = 1000}, 3).eq(0).all().item<bool>());  // further than the picture is wide
}

TEST(Augmentation, ErasedRectanglesAreOfThePapersSizes) {
  const at::Tensor image = numbered_pixels(12, 20).expand({3, -1, -1});
  int erased = 0;
  std::set<std::vector<int64_t>> corners;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const at::Tensor out = augmented(image, {.erase = 0.5}, seed);
    const at::Tensor black = out.eq(0);
    if (!black.any().item<bool>()) {
      EXPECT_TRUE(at::equal(out, image));
      continue;
    }
    ++erased;
    EXPECT_TRUE(at::equal(black[0], black[2]));
    const at::Tensor rows = black[0].any(1).nonzero(), columns = black[0].any(0).nonzero();
    EXPECT_EQ(black[0].sum().item<int64_t>(), rows.size(0) * columns.size(0)) << "no whole rectangle";
    EXPECT_TRUE(at::equal(out.masked_select(black.logical_not()), image.masked_select(black.logical_not())));
    EXPECT_GE(rows.size(0) * columns.size(0), 2);
    EXPECT_LE(rows.size(0) * columns.size(0), 0.4 * 240);
    corners.insert({rows[0].item<int64_t>(), columns[0].item<int64_t>()});
  }
  EXPECT_NEAR(erased, 300, 50);
  EXPECT_GT(corners.size(), 60u);
  EXPECT_TRUE(at::equal(image, numbered_pixels(12, 20).expand({3, -1, -1}))) << "the picture itself was changed";
}

TEST(Augmentation, EachChangeHasDrawsOfItsOwn) {
  const at::Tensor image = numbered_pixels(6, 6);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const at::Tensor shifted = augmented(image, {.shift = 2}, seed);
    EXPECT_TRUE(at::equal(augmented(image, {.shift = 2}, seed), shifted));
    const at::Tensor both = augmented(image, {.flip = 1, .shift = 2}, seed);
    EXPECT_TRUE(at::equal(both, augmented(image.flip({2}), {.shift = 2}, seed)));
  }
}

TEST(Augmentation, OptionsOutOfRange) {
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { check_augmentation({.flip = 1.5}); }), "flip is 1.5");
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { check_augmentation({.shift = -1}); }), "shift is -1");
  EXPECT_HAS(error_of(ErrorKind::kConfig, [] { check_augmentation({.erase = -0.1}); }), "erase is -0.1");
}

}  // namespace
}  // namespace fovea
