// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/channel_recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/channel/channel_attention.h"

namespace fovea {
namespace {

AttentionRecord weighed(const std::string& name, int64_t Y, int64_t X, int64_t batch = 1) {
  at::manual_seed(3);
  const auto attention = make_channel_attention(name, {.channels = 6, .reduction = 2});
  attention->eval();
  ChannelRecorder recorder("toy", at::zeros({1, 12, 8}, at::kByte));
  attention->forward(at::randn({batch, 6, Y, X}));
  attention->forward(at::randn({batch, 6, Y, X}));  // another layer of the same size
  return recorder.finish();
}

TEST(ChannelRecorder, ChannelsArePlacesOfOneRow) {
  const AttentionRecord record = weighed("cbam", 6, 4);
  ASSERT_EQ(record.maps.size(), 4u);
  EXPECT_EQ(record.maps[0].name, "cbam.channel_weights");
  EXPECT_EQ(record.maps[0].weights.sizes(), (std::vector<int64_t>{1, 1, 6}));
  EXPECT_EQ(record.maps[1].name, "cbam.spatial_weights");
  EXPECT_EQ(record.maps[1].weights.sizes(), (std::vector<int64_t>{1, 1, 24}));
  ASSERT_EQ(record.sequences.size(), 3u);  // the picture, its channels, its places: shared by both layers
  const auto& places = record.sequences[size_t(record.maps[1].keys)];
  EXPECT_EQ(places.tokens.size(), 24u);
  EXPECT_EQ(places.tokens[4], "2,1");
  EXPECT_EQ(places.picture->rows, 6);
  EXPECT_EQ(places.picture->first, 0);
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["maps"][0]["gates"], true);
  EXPECT_EQ(json["sequences"][2]["picture"]["first"], 0);
}

TEST(ChannelRecorder, RowsTimesColumnsAreAHeadForEachChannel) {
  const AttentionRecord record = weighed("coordinate", 3, 2);
  ASSERT_EQ(record.maps.size(), 2u);
  EXPECT_EQ(record.maps[0].name, "coordinate.place_weights");
  EXPECT_EQ(record.maps[0].weights.sizes(), (std::vector<int64_t>{6, 1, 6}));
  const at::Tensor whole = record.maps[0].weights.view({6, 3, 2});
  // A product of a factor for the row and one for the column.
  EXPECT_TRUE(at::allclose(whole.select(1, 0) * whole.select(2, 1).slice(1, 1, 2),
                           whole.select(1, 1) * whole.select(2, 1).slice(1, 0, 1)));
}

TEST(ChannelRecorder, SaysWhatDoesNotFit) {
  const auto says = [](auto call, const char* part) {
    try {
      call();
      ADD_FAILURE() << "no error; wanted: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  says([] { weighed("eca", 6, 4, 2); }, "one picture at a time");
  says([] { weighed("cbam", 5, 4); }, "does not divide into them");
  says([] { ChannelRecorder("toy", at::zeros({1, 12, 8}, at::kByte)).finish(); }, "no channel attention");
  says([] { ChannelRecorder("toy", at::zeros({1, 12, 8})); }, "wanted Byte [channels, Y, X]");
  says(
      [] {
        ChannelRecorder recorder("toy", at::zeros({1, 12, 8}, at::kByte));
        Probe::emit("column_weights", at::ones({1, 6, 4}));
      },
      "column_weights came without its row_weights");
}

}  // namespace
}  // namespace fovea
