// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/record.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "fovea/view/base64.h"

namespace fovea {
namespace {

std::string unbase64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                                             : 63;
    bits = bits << 6 | uint32_t(value);
    count += 6;
    if (count >= 8) out += char(bits >> (count -= 8));
  }
  return out;
}

TEST(Base64, EqualsTheVectorsOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xef\xbe"), "/+++");
}

TEST(Record, KeepsWeightsBitForBitAndTokensAsTheyAre) {
  at::manual_seed(1);
  const at::Tensor weights = at::softmax(at::randn({2, 3, 4}), -1);
  const AttentionRecord record{
      "toy",
      {{"target", {"a", " b", "\n"}}, {"source", {"\"", "</script>", "中", ""}}},
      {{"layers.0.cross_attention.weights", 0, 1, weights.transpose(1, 2).contiguous().transpose(1, 2)}}};
  const auto json = nlohmann::json::parse(to_json(record));
  EXPECT_EQ(json["format"], "fovea.attention");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["model"], "toy");
  EXPECT_EQ(json["sequences"][0]["tokens"], (std::vector<std::string>{"a", " b", "\n"}));
  EXPECT_EQ(json["sequences"][1]["tokens"], (std::vector<std::string>{"\"", "</script>", "中", ""}));
  const auto& map = json["maps"][0];
  EXPECT_EQ(map["name"], "layers.0.cross_attention.weights");
  EXPECT_EQ(map["queries"], 0);
  EXPECT_EQ(map["keys"], 1);
  EXPECT_EQ(map["shape"], (std::vector<int64_t>{2, 3, 4}));
  const std::string bytes = unbase64(map["data"]);
  ASSERT_EQ(bytes.size(), 24 * sizeof(float));
  for (int64_t i = 0; i < 24; ++i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    EXPECT_EQ(value, weights.view({-1})[i].item<float>());
  }
}

TEST(Record, KeepsThePixelsOfAPicture) {
  AttentionRecord record{"eye", {{"picture", {"[class]", "1,1", "1,2"}}}, {}};
  const at::Tensor pixels = at::arange(12).view({3, 1, 4}).to(at::kByte);
  record.sequences[0].picture = {pixels, 1, 2};
  const auto picture = nlohmann::json::parse(to_json(record))["sequences"][0]["picture"];
  EXPECT_EQ(picture["shape"], (std::vector<int64_t>{1, 4, 3}));
  EXPECT_EQ(picture["patches"], (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(picture["first"], 1);
  const std::string bytes = unbase64(picture["data"]);
  EXPECT_EQ(bytes, std::string({0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
}

}  // namespace
}  // namespace fovea
