// Tokenizers written out by hand, ids worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/tokenizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "fovea/base/error.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

using Ids = std::vector<int64_t>;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;

// A byte-level tokenizer with "\n\n", two blanks and " b" in its vocabulary; `more` are further sections.
std::string newline_json(const std::string& more = "") {
  return R"({"added_tokens": [{"id": 9, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
      "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ċ": 2, "Ġ": 3, "ĉ": 4, "ĊĊ": 5, "ĠĠ": 6, "Ġb": 7, "č": 8},
                "merges": ["Ċ Ċ", ["Ġ", "Ġ"], "Ġ b"]})" +
         more + "}";
}

std::string message_of(const std::string& json) {
  try {
    Tokenizer::from_json(json, "t.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Tokenizer, NewlinesTabsAndTrailingBlanks) {
  const Tokenizer tokenizer = Tokenizer::from_json(newline_json());
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"", {}},
      {"a\n\n", {0, 5}},
      {"a \n\n b", {0, 3, 5, 7}},
      {"a\n\n\n", {0, 5, 2}},
      {"a\n\n\n\n", {0, 5, 5}},
      {"a\n\n\n\nb", {0, 5, 2, 2, 1}},  // the last blank before a letter stands apart
      {"\t\ta\t", {4, 4, 0, 4}},
      {"a   ", {0, 6, 3}},
      {"a\r\nb\ra", {0, 8, 2, 1, 8, 0}},
      {"a<|end|>b", {0, 9, 1}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer.ids(text), ids) << text;
    const Encoding encoding = tokenizer.encode(text);
    EXPECT_EQ(encoding.ids, ids) << text;
    EXPECT_EQ(encoding.attention_mask, Ids(ids.size(), 1));
    EXPECT_EQ(encoding.type_ids, Ids(ids.size(), 0));
    EXPECT_EQ(tokenizer.decode(ids, false), text);
  }
}

TEST(Tokenizer, TokensAndOffsetsCountCodePoints) {
  const Tokenizer tokenizer = Tokenizer::from_json(newline_json());
  const Encoding encoding = tokenizer.encode("a \n\n b");
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"a", "Ġ", "ĊĊ", "Ġb"}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {1, 2}, {2, 4}, {4, 6}}));
  // A token that is part of a character covers that character.
  const Tokenizer bytes = train_bpe({"a"}, {.vocab_size = 256});
  EXPECT_EQ(bytes.encode("é🙂a").offsets, (Offsets{{0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {2, 3}}));
}

TEST(Tokenizer, OffsetsInBytes) {
  using Bytes = std::pair<size_t, size_t>;
  EXPECT_EQ(byte_offsets("aé🙂b", {1, 3}), Bytes(1, 7));
  EXPECT_EQ(byte_offsets("aé🙂b", {4, 4}), Bytes(8, 8));
  EXPECT_EQ(byte_offsets("", Offsets{{0, 0}}), std::vector{Bytes(0, 0)});
  EXPECT_THROW(byte_offsets("a", {0, 2}), Error);
}

TEST(Tokenizer, VocabularyAndRoles) {
  const Tokenizer tokenizer = Tokenizer::from_json(newline_json());
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_EQ(tokenizer.end_id(), 10);
  EXPECT_EQ(tokenizer.token_to_id("ĊĊ"), 5);
  EXPECT_EQ(tokenizer.token_to_id("<|end|>"), 9);
  EXPECT_EQ(tokenizer.token_to_id("zz"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(9), "<|end|>");
  EXPECT_EQ(tokenizer.id_to_token(10), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(9));
  EXPECT_FALSE(tokenizer.bos_id() || tokenizer.eos_id() || tokenizer.pad_id() || tokenizer.unk_id());
  const Tokenizer trained = train_bpe({"a"}, {.vocab_size = 300, .special_tokens = {"<pad>", "<|endoftext|>", "<s>"}});
  EXPECT_EQ(trained.bos_id(), 2);
  EXPECT_EQ(trained.eos_id(), 1);
  EXPECT_EQ(trained.pad_id(), 0);
}

TEST(Tokenizer, InvalidUtf8IsAnErrorWithItsPosition) {
  const Tokenizer tokenizer = Tokenizer::from_json(newline_json());
  for (const std::string bad : {"aaa\xFFz", "aaa\xED\xA0\x80", "aaa\xC3"}) {
    try {
      tokenizer.ids(bad);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find("byte 3"), std::string::npos) << error.what();
    }
    EXPECT_THROW(tokenizer.encode(bad), Error);
    EXPECT_THROW(tokenizer.encode_pair("a", bad), Error);
    EXPECT_THROW(train_bpe({bad}), Error);
    EXPECT_THROW(train_characters(bad), Error);
    EXPECT_THROW(Tokenizer::from_json(bad), Error);
  }
}

TEST(Tokenizer, DecodingRefusesUnknownIdsAndMendsHalfCharacters) {
  const Tokenizer bytes = train_bpe({"a"}, {.vocab_size = 256});
  const Ids euro = bytes.ids("€");
  ASSERT_EQ(euro.size(), 3u);
  EXPECT_EQ(bytes.decode({euro[0], euro[1]}), "\uFFFD");
  EXPECT_EQ(bytes.decode({euro[1], euro[0], bytes.ids("x")[0]}), "\uFFFD\uFFFDx");
  EXPECT_THROW(bytes.decode({256}), Error);
  EXPECT_THROW(bytes.decode({-1}), Error);
}

TEST(Tokenizer, ByteLevelGivesBackAnyText) {
  const std::string corpus = "the cat sat on the mat, don't we'll naïve 中文 🙂🙂\n\n  x";
  const Tokenizer tokenizer = train_bpe({corpus, corpus}, {.vocab_size = 300, .special_tokens = {"<é>"}});
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      const uint32_t kind = random() % 4;
      char32_t c = kind == 0   ? random() % 128
                   : kind == 1 ? random() % 0x800
                   : kind == 2 ? random() % 0x10000
                               : random() % 0x110000;
      if (c >= 0xD800 && c <= 0xDFFF) c = ' ';
      append_utf8(text, c);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.ids(text)), text);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.ids("a<é>b"), false), "a<é>b");
  EXPECT_EQ(tokenizer.decode(tokenizer.ids("a<é>b")), "ab");
}

TEST(Tokenizer, HugeWordsAndNulBytes) {
  const Tokenizer tokenizer = train_bpe({"xxxx yyyy xy"}, {.vocab_size = 262});
  for (const std::string& text : {std::string(100'000, 'x'), std::string(100'000, ' '), std::string(100'000, '\0'),
                                  std::string("a\0b\0", 4), "x\0y" + std::string(1000, '\n')}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.ids(text)), text);
    EXPECT_EQ(tokenizer.encode(text).ids, tokenizer.ids(text));
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const std::string text = "the cat sat on the mat and the dog sat on the cat ";
  const Tokenizer tokenizer = train_bpe({text}, {.vocab_size = 290});
  std::string long_text;
  for (int i = 0; i < 200; ++i) long_text += text + std::to_string(i);
  const Ids wanted = tokenizer.ids(long_text);
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) equal += tokenizer.ids(long_text) == wanted;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
}

TEST(Tokenizer, SavedAndLoadedAgain) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fovea_tokenizer_test" / "new";
  const Tokenizer tokenizer = Tokenizer::from_json(newline_json());
  tokenizer.save(folder);
  EXPECT_EQ(Tokenizer::load(folder).to_json(), tokenizer.to_json());
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json").ids("a \n\n b"), (Ids{0, 3, 5, 7}));
  write_file(folder / "tokenizer_config.json",
             R"({"eos_token": {"content": "<|end|>"}, "pad_token": "<|end|>", "bos_token": null})");
  EXPECT_EQ(Tokenizer::load(folder).eos_id(), 9);
  EXPECT_EQ(Tokenizer::load(folder).pad_id(), 9);
  EXPECT_FALSE(Tokenizer::load(folder).bos_id());
  EXPECT_THROW(Tokenizer::load(folder / "none"), Error);
  std::filesystem::remove_all(folder.parent_path());
}

TEST(Tokenizer, SourcesMayHaveAVocabularyOfTheirOwn) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fovea_two_tokenizers_test";
  const Tokenizer alone = train_characters("abc", {.special_tokens = {"</s>"}});
  const Tokenizer both = alone.with_source(train_characters("xyz"));
  EXPECT_FALSE(alone.has_source());
  EXPECT_EQ(alone.source().ids("ab"), alone.ids("ab"));
  both.save(folder);
  const Tokenizer read = Tokenizer::load(folder);
  ASSERT_TRUE(read.has_source());
  EXPECT_EQ(read.ids("abc"), (Ids{2, 3, 4}));
  EXPECT_EQ(read.source().ids("xyz"), (Ids{1, 2, 3}));
  EXPECT_FALSE(read.source().has_source());
  EXPECT_FALSE(Tokenizer::load(folder / "tokenizer.json").has_source());
  alone.save(folder);  // leaves no other's behind
  EXPECT_FALSE(Tokenizer::load(folder).has_source());
  write_file(folder / "source_tokenizer.json", "{");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  std::filesystem::remove_all(folder);
}

TEST(Tokenizer, OldGpt2Folder) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fovea_gpt2_test";
  std::filesystem::create_directories(folder);
  write_file(folder / "vocab.json", R"({"a": 0, "b": 1, "Ġ": 2, "Ġb": 3, "<|endoftext|>": 4})");
  write_file(folder / "merges.txt", "#version: 0.2\r\nĠ b\r\n");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.ids("a b<|endoftext|>"), (Ids{0, 3, 4}));
  EXPECT_EQ(tokenizer.eos_id(), 4);
  write_file(folder / "merges.txt", "#version: 0.2\nĠ b c\n");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  std::filesystem::remove_all(folder);
}

TEST(Tokenizer, OldBertFolder) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fovea_bert_test";
  std::filesystem::create_directories(folder);
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nplay\n##ing\n##ed\n,\ncafe\n中\n");
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const Encoding encoding = tokenizer.encode("Playing, Café中 xyz");
  EXPECT_EQ(encoding.ids, (Ids{2, 4, 5, 7, 8, 9, 1, 3}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 0}, {0, 4}, {4, 7}, {7, 8}, {9, 13}, {13, 14}, {15, 18}, {0, 0}}));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "playing, cafe 中");  // [UNK] is special, too
  EXPECT_EQ(tokenizer.encode_pair("play", "played").type_ids, (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.ids(std::string(101, 'a')), (Ids{2, 1, 3}));  // too long to look at
  write_file(folder / "tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(Tokenizer::load(folder).ids("Play play"), (Ids{2, 1, 4, 3}));
  EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json()).to_json(), tokenizer.to_json());
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  std::filesystem::remove_all(folder);
}

TEST(Tokenizer, WhatIsNotSupportedIsNamed) {
  const auto expect = [](const std::string& json, const std::string& part) {
    const std::string message = message_of(json);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  expect("", "parse error");
  expect("[]", "wanted an object");
  expect("{}", "\"model\" is missing");
  expect(R"({"model": {"type": "WordLevel", "vocab": {}}})", "the model \"WordLevel\" is not supported");
  expect("{" + model + R"(, "pre_tokenizer": {"type": "UnicodeScripts"}})", "\"UnicodeScripts\" is not supported");
  expect("{" + model + R"(, "normalizer": {"type": "ByteLevel"}})", "the normalizer \"ByteLevel\" is not supported");
  expect("{" + model + R"(, "decoder": {"type": "CTC"}})", "the decoder \"CTC\" is not supported");
  expect("{" + model + R"(, "colour": 1})", "the field \"colour\" is not supported");
  expect("{" + model + R"(, "pre_tokenizer": {"type": "Digits"}})",
         "t.json: pre_tokenizer: \"individual_digits\" is missing");
  expect("{" + model + R"(, "pre_tokenizer": {"type": "Digits", "individual_digits": 1}})",
         "pre_tokenizer.individual_digits: wanted true or false, got number");
  expect(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}})", "model.dropout");
  expect(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})", "needs the token \"b\"");
  expect(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})", "needs the token \"ab\"");
  expect(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})", "have the same id 0");
  expect(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})", "given twice");
  expect(R"({"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}})", "has the id 4000000000");
  expect(R"({"model": {"type": "BPE", "unk_token": "u", "vocab": {"a": 0}, "merges": []}})", "unknown token \"u\"");
  expect("{" + model + R"(, "version": "2.0"})", "version \"2.0\"");
}

}  // namespace
}  // namespace fovea
