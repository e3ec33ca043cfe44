// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/training.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "fovea/base/error.h"

namespace fovea {
namespace {

using Ids = std::vector<int64_t>;

TEST(CharacterTraining, VocabularyInOrderOfCodePoints) {
  const Tokenizer tokenizer = train_characters("bé\na中a");
  const std::vector<std::string> wanted = {"<unk>", "\n", "a", "b", "é", "中"};
  ASSERT_EQ(tokenizer.vocab_size(), 6);
  for (size_t id = 0; id < wanted.size(); ++id) EXPECT_EQ(tokenizer.id_to_token(static_cast<int64_t>(id)), wanted[id]);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_EQ(tokenizer.ids("ab?中\n\n"), (Ids{2, 3, 0, 5, 1, 1}));
  EXPECT_EQ(tokenizer.decode({2, 3, 0, 5}, false), "ab<unk>中");
  EXPECT_EQ(tokenizer.decode({2, 3, 0, 5}), "ab中");
  EXPECT_EQ(tokenizer.encode("中a").offsets, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}}));
}

TEST(CharacterTraining, SpecialTokensAndRareCharacters) {
  const Tokenizer tokenizer = train_characters("aab", {.special_tokens = {"<pad>", "<s>"}, .min_frequency = 2});
  EXPECT_EQ(tokenizer.vocab_size(), 4);
  EXPECT_EQ(tokenizer.ids("<s>ab"), (Ids{2, 3, 0}));
  EXPECT_EQ(tokenizer.pad_id(), 1);
  EXPECT_EQ(tokenizer.bos_id(), 2);
  EXPECT_THROW(train_characters(""), Error);
  EXPECT_THROW(train_characters("a", {.special_tokens = {"<unk>"}}), Error);
  EXPECT_THROW(train_characters("a", {.special_tokens = {""}}), Error);
}

TEST(BpeTraining, MostFrequentPairFirst) {
  // Words "ab", " ab" twice: (a, b) 3, (blank, a) 2; then (blank, ab) 2.
  const Tokenizer tokenizer = train_bpe({"ab ab ab"}, {.vocab_size = 258});
  EXPECT_EQ(tokenizer.id_to_token(256), "ab");
  EXPECT_EQ(tokenizer.id_to_token(257), "Ġab");
  EXPECT_EQ(tokenizer.ids("ab ab"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer.id_to_token(0), "!");  // the alphabet is in order of code points
  EXPECT_EQ(tokenizer.decode({257, 256}), " abab");
}

TEST(BpeTraining, AmongEqualsTheSmallestIds) {
  // (c, d), (e, f), (blank, e) occur once each; the blank is U+0120 and so has a large id.
  const Tokenizer tokenizer = train_bpe({"cd ef"}, {.vocab_size = 259, .special_tokens = {"<s>"}});
  EXPECT_EQ(tokenizer.id_to_token(0), "<s>");
  EXPECT_EQ(tokenizer.id_to_token(257), "cd");
  EXPECT_EQ(tokenizer.id_to_token(258), "ef");
}

TEST(BpeTraining, FrequencyEndsIt) {
  EXPECT_EQ(train_bpe({"ab ab cd"}, {.vocab_size = 1000, .min_frequency = 2}).vocab_size(), 257);  // only (a, b)
  EXPECT_EQ(train_bpe({"aaaa"}, {.vocab_size = 1000}).vocab_size(), 258);                          // aa, aaaa
  EXPECT_EQ(train_bpe({"a", "b"}, {.vocab_size = 1000}).vocab_size(), 256);                        // texts stay apart
}

TEST(BpeTraining, IsolatedCharactersStandAlone) {
  const std::string text = "保存文件 file\n保存 the file\n文件";
  const Tokenizer whole = train_bpe({text}, {.vocab_size = 300});
  const Tokenizer tokenizer = train_bpe({text}, {.vocab_size = 300, .isolate = R"(\p{Lo})"});
  EXPECT_LT(whole.ids("保存文件").size(), 4u);
  EXPECT_EQ(tokenizer.ids("保存文件").size(), 4u);
  EXPECT_EQ(tokenizer.ids("保")[0], tokenizer.ids("保存")[0]);
  EXPECT_EQ(tokenizer.ids(" file").size(), 1u);
  EXPECT_EQ(tokenizer.decode(tokenizer.ids("保存 the file，文")), "保存 the file，文");
  try {
    train_bpe({text}, {.isolate = "("});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.what();
  }
}

TEST(ShortenTexts, CutsAndKeepsWhatStandsAround) {
  const Tokenizer words =
      enclose_texts(train_words("a b c d", {.special_tokens = {"[CLS]", "[SEP]"}}), "[CLS]", "[SEP]");
  const Tokenizer tokenizer = shorten_texts(words, 4);
  EXPECT_EQ(tokenizer.encode("a b c d").tokens, (std::vector<std::string>{"[CLS]", "a", "b", "[SEP]"}));
  EXPECT_EQ(tokenizer.encode("a b").tokens, words.encode("a b").tokens);
  EXPECT_EQ(tokenizer.encode("a b c d", {.truncate = false}).ids.size(), 6u);
  EXPECT_THROW(shorten_texts(words, 0), Error);
  const Tokenizer opened = enclose_texts(train_words("a b", {.special_tokens = {"<s>"}}), "<s>", "");
  EXPECT_EQ(opened.encode("a b").tokens, (std::vector<std::string>{"<s>", "a", "b"}));
}

TEST(BpeTraining, RefusesBadOptions) {
  EXPECT_THROW(train_bpe({"a"}, {.vocab_size = 255}), Error);
  EXPECT_THROW(train_bpe({"a"}, {.vocab_size = 256, .special_tokens = {"<s>"}}), Error);
  EXPECT_THROW(train_bpe({"a"}, {.special_tokens = {"<s>", "<s>"}}), Error);
  EXPECT_THROW(train_bpe({}), Error);
  EXPECT_THROW(train_bpe({""}), Error);
}

// The definition: merge the pair of lowest rank, the leftmost among equals, until none is left.
std::vector<std::string> merged_slowly(const std::string& word,
                                       const std::map<std::pair<std::string, std::string>, size_t>& ranks) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = SIZE_MAX, at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find({parts[i], parts[i + 1]});
      if (rank != ranks.end() && rank->second < best) best = rank->second, at = i;
    }
    if (best == SIZE_MAX) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  std::mt19937 random(5);
  std::string corpus;
  for (int i = 0; i < 3000; ++i) corpus += static_cast<char>('a' + random() % 3);
  const Tokenizer tokenizer = train_bpe({corpus}, {.vocab_size = 400});
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  const std::string json = tokenizer.to_json();
  for (size_t at = json.find("\"merges\""); (at = json.find("[\"", at)) != std::string::npos; ++at) {
    const size_t middle = json.find("\", \"", at), end = json.find("\"]", at);
    ranks.emplace(std::pair(json.substr(at + 2, middle - at - 2), json.substr(middle + 4, end - middle - 4)),
                  ranks.size());
  }
  ASSERT_EQ(ranks.size(), 144u);
  for (const size_t length : {1, 2, 3, 7, 20, 47, 48, 49, 50, 97, 500}) {
    for (int round = 0; round < 20; ++round) {
      std::string word;
      for (size_t i = 0; i < length; ++i) word += static_cast<char>('a' + random() % 3);
      EXPECT_EQ(tokenizer.encode(word).tokens, merged_slowly(word, ranks)) << word;
    }
  }
}

}  // namespace
}  // namespace fovea
