// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "fovea/base/error.h"
#include "fovea/base/utf8.h"
#include "fovea/text/tokenizer.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

TEST(StreamDecoder, HoldsBackHalfCharacters) {
  const Tokenizer tokenizer = train_bpe({"a"}, {.vocab_size = 257, .special_tokens = {"<s>"}});
  StreamDecoder stream(tokenizer);
  std::vector<std::string> pieces;
  for (const int64_t id : tokenizer.ids("é🙂<s>b")) pieces.push_back(stream.push(id));
  EXPECT_EQ(pieces, (std::vector<std::string>{"", "é", "", "", "", "🙂", "", "b"}));
  EXPECT_EQ(stream.flush(), "");
}

TEST(StreamDecoder, MendsWhatNeverBecomesACharacter) {
  const Tokenizer tokenizer = train_bpe({"a"}, {.vocab_size = 256});
  const std::vector<int64_t> euro = tokenizer.ids("€"), a = tokenizer.ids("a");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(euro[0]), "");
  EXPECT_EQ(stream.push(a[0]), "\uFFFDa");
  EXPECT_EQ(stream.push(euro[1]), "\uFFFD");
  EXPECT_EQ(stream.push(euro[0]), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_THROW(stream.push(256), Error);
}

// Any order of ids: what a stream returns, joined, is what decode returns.
void expect_stream_equals_decode(const Tokenizer& tokenizer) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> ids(12);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint32_t>(tokenizer.vocab_size()));
    StreamDecoder stream(tokenizer);
    std::string joined;
    for (const int64_t id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_EQ(find_invalid_utf8(piece), std::string::npos);
      joined += piece;
    }
    EXPECT_EQ(joined + stream.flush(), tokenizer.decode(ids));
  }
}

TEST(StreamDecoder, EqualsDecode) {
  expect_stream_equals_decode(train_bpe({"é🙂 ab ab"}, {.vocab_size = 262, .special_tokens = {"<s>"}}));
  expect_stream_equals_decode(train_characters("ab é🙂"));
  const std::string model =
      R"("model": {"type": "BPE", "vocab": {"▁a": 0, "b</w>": 1, "<0xE2>": 2, "<0x82>": 3, "<0xAC>": 4, "▁": 5}, "merges": []})";
  expect_stream_equals_decode(Tokenizer::from_json("{" + model + "}"));
  expect_stream_equals_decode(
      Tokenizer::from_json("{" + model + R"(, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}})"));
  expect_stream_equals_decode(Tokenizer::from_json(
      "{" + model +
      R"(, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})"));
}

}  // namespace
}  // namespace fovea
