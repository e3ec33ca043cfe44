// Every registered mask: its tile form says what its predicate says, and the operator's schema carries it whole.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fovea/masks/all.h"
#include "fovea/masks/registry.h"
#include "fovea/ops/bind.h"

namespace fovea {
namespace {

const AttentionShape kShapes[] = {{2, 3, 3, 9, 13, 4, 4}, {1, 2, 2, 8, 8, 4, 4}, {3, 2, 1, 1, 7, 4, 4}, {2, 2, 2, 12, 5, 4, 4}};

// Queries and keys; a plan also asks about few queries and many keys.
const std::pair<int64_t, int64_t> kTileSizes[] = {{1, 1}, {3, 3}, {4, 4}, {16, 16}, {1, 16}, {2, 6}, {3, 16}, {4, 8}};

template <class F>
void for_each_sample(const F& visit) {
  for (const auto& [name, entry] : masks_registry().entries()) {
    for (const auto& shape : kShapes) {
      for (const Mask& mask : entry.samples(shape)) {
        SCOPED_TRACE(name + " T=" + std::to_string(shape.T) + " S=" + std::to_string(shape.S));
        visit(mask, shape);
        visit(~mask, shape);
      }
    }
  }
}

TEST(Masks, EveryEntryHasSamples) {
  for (const auto& [name, entry] : masks_registry().entries()) EXPECT_FALSE(entry.samples(kShapes[1]).empty()) << name;
}

TEST(Masks, CoverAndFillAgreeWithAllowed) {
  for_each_sample([](const Mask& mask, const AttentionShape& s) {
    const auto bound = bind_mask(mask, s);
    const MaskRule& rule = *bound.object;
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.H; ++h)
        for (const auto& [rows, columns] : kTileSizes)
          for (int64_t q0 = 0; q0 < s.T; q0 += rows)
            for (int64_t k0 = 0; k0 < s.S; k0 += columns) {
              const Tile tile{b, h, q0, std::min(q0 + rows, s.T), k0, std::min(k0 + columns, s.S)};
              const int64_t stride = tile.k1 - tile.k0;
              std::vector<uint8_t> visible(size_t((tile.q1 - tile.q0) * stride), 7);
              rule.fill(tile, visible.data(), stride);
              bool any = false, all = true;
              for (int64_t q = tile.q0; q < tile.q1; ++q)
                for (int64_t k = tile.k0; k < tile.k1; ++k) {
                  const bool allowed = rule.allowed(b, h, q, k);
                  ASSERT_EQ(visible[size_t((q - q0) * stride + k - k0)], allowed);
                  any |= allowed, all &= allowed;
                  ASSERT_TRUE(rule.depends_on_batch() || allowed == rule.allowed(0, h, q, k));
                  ASSERT_TRUE(rule.depends_on_head() || allowed == rule.allowed(b, 0, q, k));
                }
              ASSERT_FALSE(rule.cover(tile) == Cover::kSkip && any);
              ASSERT_FALSE(rule.cover(tile) == Cover::kFull && !all);
            }
  });
}

TEST(Masks, TheSchemaCarriesThemWhole) {
  for_each_sample([](const Mask& mask, const AttentionShape& s) {
    const Mask both = (mask & masks::causal()) | ~masks::prefix(1);
    std::vector<at::Tensor> data;
    const std::string text = both.encode(data);
    const Mask back = Mask::decode(text, data);
    EXPECT_TRUE(at::equal(visible(both, s, 0, s.B), visible(back, s, 0, s.B))) << text;
  });
}

TEST(Masks, CompositionIsElementwise) {
  for_each_sample([](const Mask& mask, const AttentionShape& s) {
    const Mask other = masks::sliding_window(2, 1);
    const auto a = visible(mask, s, 0, s.B), b = visible(other, s, 0, s.B);
    EXPECT_TRUE(at::equal(visible(mask & other, s, 0, s.B), a & b));
    EXPECT_TRUE(at::equal(visible(mask | other, s, 0, s.B), a | b));
    EXPECT_TRUE(at::equal(visible(~mask, s, 0, s.B), a.logical_not()));
  });
}

TEST(Masks, Pictures) {
  EXPECT_EQ(masks::causal().draw(3, 3), "#..\n##.\n###\n");
  EXPECT_EQ(masks::causal().draw(2, 4), "###.\n####\n");
  EXPECT_EQ(masks::causal(masks::Align::top_left).draw(2, 4), "#...\n##..\n");
  EXPECT_EQ(masks::sliding_window(2).draw(3, 3), "#..\n##.\n.##\n");
  EXPECT_EQ((masks::prefix(2) | masks::causal()).draw(3, 3), "##.\n##.\n###\n");
  EXPECT_EQ(masks::padding(at::tensor({3, 1}, at::kLong)).draw(1, 3, 1), "#..\n");
  EXPECT_EQ(masks::padding(at::tensor({1, 2}, at::kLong), at::tensor({2, 1}, at::kLong)).draw(1, 4, 1), "..#.\n");
  EXPECT_EQ(masks::document(at::tensor({5, 5, 9}, at::kLong)).draw(3, 3), "##.\n##.\n..#\n");
  EXPECT_EQ(masks::window_global(0, at::tensor({1, 0, 0}).to(at::kBool)).draw(3, 3), "###\n##.\n#.#\n");
  EXPECT_EQ(masks::window_global(0, at::tensor({1, 0, 0}).to(at::kBool), false).draw(3, 3), "...\n##.\n#.#\n");
  EXPECT_EQ(masks::window_global(INT64_MAX, at::tensor({1, 0, 0}).to(at::kBool), false).draw(3, 3), "...\n###\n###\n");
  const auto listed = at::zeros({1, 1, 6, 1}, at::kLong).index_fill(2, at::tensor({2}, at::kLong), 4);
  EXPECT_EQ(masks::block_window({.size = 1, .listed = listed}).draw(6, 6),
            "######\n###..#\n######\n#.####\n#..###\n######\n");
  EXPECT_EQ(masks::block_window({.size = 2, .least = 3, .listed = listed, .lengths = at::tensor({3}, at::kLong)}).draw(4, 4),
            "###.\n###.\n###.\n....\n");
  EXPECT_EQ(masks::blocks(2, at::eye(2, at::kBool)).draw(3, 4), "##..\n##..\n..##\n");
  EXPECT_EQ(masks::allow(at::tensor({1, 0}).to(at::kBool)).draw(1, 2), "#.\n");
  EXPECT_EQ(masks::block(at::tensor({1, 0}).to(at::kBool)).draw(1, 2), ".#\n");
  EXPECT_EQ(masks::rule([](int64_t, int64_t, int64_t q, int64_t k) { return (q + k) % 2 == 0; }).draw(2, 3), "#.#\n.#.\n");
  EXPECT_DOUBLE_EQ(masks::causal().density(4, 4), 10.0 / 16);
  EXPECT_DOUBLE_EQ(Mask().density(3, 5), 1.0);
}

TEST(Masks, BadDataIsRefusedByName) {
  const AttentionShape s{2, 1, 1, 3, 4, 2, 2};
  const auto message = [&](const Mask& mask) {
    try {
      visible(mask, s, 0, s.B);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message(masks::padding(at::tensor({1, 5}, at::kLong))).find("masks::padding: lengths: sequence 1 has 5, wanted 0 … 4"), std::string::npos);
  EXPECT_NE(message(masks::padding(at::tensor({1}, at::kLong))).find("wanted integers [2]"), std::string::npos);
  EXPECT_NE(message(masks::padding(at::tensor({3, 0}, at::kLong), at::tensor({2, 0}, at::kLong))).find("start + length"), std::string::npos);
  EXPECT_NE(message(masks::allow(at::ones({3, 5}, at::kBool))).find("masks::allow: axis S has size 5, wanted 1 or 4"), std::string::npos);
  EXPECT_NE(message(masks::document(at::zeros({3}, at::kLong))).find("masks::document"), std::string::npos);
  EXPECT_NE(message(masks::blocks(2, at::ones({2, 3}, at::kBool))).find("wanted bool [2, 2]"), std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::zeros({1, 1, 3, 0}, at::kLong)})).find("4 blocks, there are lists for 3"), std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::full({1, 1, 4, 1}, 4, at::kLong)})).find("block 4 is listed for sequence 0, which has 4"),
            std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::full({1, 1, 4, 1}, int64_t{1} << 32, at::kLong)})).find("block 4294967296 is listed"), std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::full({1, 1, 4, 1}, 0.5)})).find("block 0.5 is listed, wanted a whole number"), std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::full({1, 1, 4, 1}, NAN)})).find("block nan is listed"), std::string::npos);
  EXPECT_NE(message(masks::block_window({.listed = at::zeros({1, 1, 4, 1}), .start = at::full({2}, 0.5)})).find("a start or length is 0.5"), std::string::npos);
  EXPECT_THROW(masks::block_window({.size = 0, .listed = at::zeros({1, 1, 4, 0}, at::kLong)}), Error);
  EXPECT_THROW(masks::allow(at::ones({3, 4})), Error);
  EXPECT_THROW(masks::sliding_window(0), Error);
  EXPECT_THROW(Mask::decode("causal(0", {}), Error);
  EXPECT_THROW(Mask::decode("cusal(0;0)", {}), Error);
  EXPECT_THROW(Mask::decode("padding(0;1)", {}), Error);
  std::vector<at::Tensor> data;
  EXPECT_THROW(masks::rule([](int64_t, int64_t, int64_t, int64_t) { return true; }).encode(data), Error);
}

TEST(Masks, AUserRuleThatThrowsReachesTheCaller) {
  const auto rule = masks::rule([](int64_t, int64_t, int64_t q, int64_t) -> bool {
    if (q == 2) throw std::out_of_range("row 2");
    return true;
  });
  EXPECT_THROW(visible(rule, {1, 1, 1, 4, 4, 1, 1}, 0, 1), std::out_of_range);
}

}  // namespace
}  // namespace fovea
