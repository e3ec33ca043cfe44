// Normalisers, pre-tokenizers, added tokens, post-processors, limits: small files, values by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "fovea/base/error.h"
#include "fovea/text/tokenizer.h"

namespace fovea {
namespace {

using Ids = std::vector<int64_t>;
using Words = std::vector<std::string>;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;

// A tokenizer whose tokens are the characters of `alphabet`, "?" for others first; `sections` are its stages.
Tokenizer with(const std::string& sections, const Words& alphabet) {
  std::string vocab = R"("?": 0)";
  for (size_t i = 0; i < alphabet.size(); ++i) vocab += ", \"" + alphabet[i] + "\": " + std::to_string(i + 1);
  return Tokenizer::from_json("{" + sections + (sections.empty() ? "" : ", ") +
                              R"("model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "vocab": {)" + vocab +
                              R"(}, "merges": []}})");
}

TEST(Normalizers, FormsKeepTrackOfTheOriginal) {
  const auto encode = [](const std::string& type, const std::string& text, const Words& alphabet) {
    return with("\"normalizer\": {\"type\": \"" + type + "\"}", alphabet).encode(text);
  };
  EXPECT_EQ(encode("NFD", "éa", {"e", "\u0301", "a"}).offsets, (Offsets{{0, 1}, {0, 1}, {1, 2}}));
  EXPECT_EQ(encode("NFC", "e\u0301a", {"é", "a"}).ids, (Ids{1, 2}));
  EXPECT_EQ(encode("NFC", "e\u0301a", {"é", "a"}).offsets, (Offsets{{0, 1}, {2, 3}}));
  EXPECT_EQ(encode("NFKC", "ﬁx", {"f", "i", "x"}).offsets, (Offsets{{0, 1}, {0, 1}, {1, 2}}));
  EXPECT_EQ(encode("NFKD", "각", {"\u1100", "\u1161", "\u11A8"}).ids, (Ids{1, 2, 3}));
  EXPECT_EQ(encode("NFD", "q\u0307\u0323", {"q", "\u0323", "\u0307"}).ids, (Ids{1, 2, 3}));  // marks in order of class
  EXPECT_EQ(encode("Lowercase", "ABÉİ", {"a", "b", "é", "i", "\u0307"}).offsets,
            (Offsets{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {3, 4}}));
  EXPECT_EQ(encode("StripAccents", "e\u0301a", {"e", "a"}).offsets, (Offsets{{0, 1}, {2, 3}}));
}

TEST(Normalizers, EditsKeepTrackOfTheOriginal) {
  const Tokenizer strip =
      with(R"("normalizer": {"type": "Strip", "strip_left": true, "strip_right": true})", {"a", " "});
  EXPECT_EQ(strip.encode("  a a ").offsets, (Offsets{{2, 3}, {3, 4}, {4, 5}}));
  EXPECT_TRUE(strip.encode(" \n ").ids.empty());
  const Tokenizer prepend = with(R"("normalizer": {"type": "Prepend", "prepend": "_"})", {"_", "a"});
  EXPECT_EQ(prepend.encode("aa").offsets, (Offsets{{0, 1}, {0, 1}, {1, 2}}));
  EXPECT_TRUE(prepend.encode("").ids.empty());
  const Tokenizer replace =
      with(R"("normalizer": {"type": "Replace", "pattern": {"String": "ab"}, "content": "xy"})", {"x", "y", "c"});
  EXPECT_EQ(replace.encode("abc").offsets, (Offsets{{1, 2}, {1, 2}, {2, 3}}));  // with the last character replaced
}

TEST(PreTokenizers, Behaviours) {
  const auto words = [](const std::string& behavior) {
    const std::string split =
        R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "-"}, "invert": false, "behavior": ")" + behavior +
        "\"}";
    // Unknown characters fuse within a word, so that offsets show the words.
    return with(split, {"!"}).encode("a--b-").offsets;
  };
  EXPECT_EQ(words("Removed"), (Offsets{{0, 1}, {3, 4}}));
  EXPECT_EQ(words("Isolated"), (Offsets{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(words("MergedWithPrevious"), (Offsets{{0, 2}, {2, 3}, {3, 5}}));
  EXPECT_EQ(words("MergedWithNext"), (Offsets{{0, 1}, {1, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(words("Contiguous"), (Offsets{{0, 1}, {1, 3}, {3, 4}, {4, 5}}));
}

TEST(PreTokenizers, Kinds) {
  const auto words = [](const std::string& pre, const std::string& text) {
    return with("\"pre_tokenizer\": " + pre, {"~"}).encode(text).offsets;
  };
  EXPECT_EQ(words(R"({"type": "Whitespace"})", "ab, c!"), (Offsets{{0, 2}, {2, 3}, {4, 5}, {5, 6}}));
  EXPECT_EQ(words(R"({"type": "WhitespaceSplit"})", " ab,\n c"), (Offsets{{1, 4}, {6, 7}}));
  EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": true})", "a12"), (Offsets{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": false})", "a12"), (Offsets{{0, 1}, {1, 3}}));
  EXPECT_EQ(words(R"({"type": "Punctuation", "behavior": "Isolated"})", "a.b"), (Offsets{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(words(R"({"type": "BertPreTokenizer"})", "a.b c"), (Offsets{{0, 1}, {1, 2}, {2, 3}, {4, 5}}));
}

std::string added(int id, const std::string& content, const std::string& flags) {
  std::string out = "{\"id\": " + std::to_string(id) + ", \"content\": \"" + content + "\"";
  for (const char* name : {"single_word", "lstrip", "rstrip", "normalized", "special"})
    out += std::string(", \"") + name + "\": " + (flags.find(name) == std::string::npos ? "false" : "true");
  return out + "}";
}

TEST(AddedTokens, Flags) {
  const auto ids = [](const std::string& tokens, const std::string& text) {
    return with("\"added_tokens\": [" + tokens + "]", {"a", " "}).ids(text);
  };
  EXPECT_EQ(ids(added(3, "xy", ""), "axya"), (Ids{1, 3, 1}));
  EXPECT_EQ(ids(added(3, "xy", "single_word"), "axya xy"), (Ids{1, 0, 1, 2, 3}));
  EXPECT_EQ(ids(added(3, "xy", "lstrip"), "a  xy a"), (Ids{1, 3, 2, 1}));
  EXPECT_EQ(ids(added(3, "xy", "rstrip"), "a xy  a"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(ids(added(3, "xy", "") + ", " + added(4, "xyz", ""), "xyzxy"), (Ids{4, 3}));  // the longest
  const Tokenizer lower = with(R"("normalizer": {"type": "Lowercase"}, "added_tokens": [)" +
                                   added(3, "XY", "normalized") + ", " + added(4, "ZZ", "") + "]",
                               {"a", "z"});
  EXPECT_EQ(lower.ids("axyXyZZzz"), (Ids{1, 3, 3, 4, 2, 2}));
  EXPECT_EQ(lower.encode("aXy").tokens, (Words{"a", "xy"}));
  EXPECT_THROW(ids(added(7, "xy", ""), "a"), Error);  // the vocabulary says 3
}

constexpr const char* kTemplate = R"("post_processor": {"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "[", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "]", "type_id": 0}}],
  "pair": [{"SpecialToken": {"id": "[", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "]", "type_id": 0}},
           {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "]", "type_id": 1}}],
  "special_tokens": {"[": {"id": "[", "ids": [5], "tokens": ["["]}, "]": {"id": "]", "ids": [6], "tokens": ["]"]}}})";

TEST(PostProcessors, Template) {
  const Tokenizer tokenizer = with(kTemplate, {"a", "b", "c", "d", "[", "]"});
  const Encoding one = tokenizer.encode("ab");
  EXPECT_EQ(one.ids, (Ids{5, 1, 2, 6}));
  EXPECT_EQ(one.special_tokens_mask, (Ids{1, 0, 0, 1}));
  EXPECT_EQ(one.offsets, (Offsets{{0, 0}, {0, 1}, {1, 2}, {0, 0}}));
  const Encoding two = tokenizer.encode_pair("ab", "c");
  EXPECT_EQ(two.ids, (Ids{5, 1, 2, 6, 3, 6}));
  EXPECT_EQ(two.type_ids, (Ids{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(tokenizer.encode_pair("ab", "c", {.add_special_tokens = false}).type_ids, (Ids{0, 0, 1}));
  EXPECT_EQ(tokenizer.ids("ab"), one.ids);
}

TEST(PostProcessors, TruncationAndPadding) {
  const auto limits = [](int max, const std::string& strategy, const std::string& direction) {
    return R"("truncation": {"max_length": )" + std::to_string(max) + R"(, "stride": 0, "strategy": ")" + strategy +
           R"(", "direction": ")" + direction + R"("}, "padding": {"strategy": {"Fixed": 8}, "direction": ")" +
           direction + R"(", "pad_to_multiple_of": null, "pad_id": 7, "pad_type_id": 2, "pad_token": "_"}, )" +
           kTemplate;
  };
  const Words alphabet = {"a", "b", "c", "d", "[", "]", "_"};
  const Encoding right = with(limits(5, "LongestFirst", "Right"), alphabet).encode("abcd");
  EXPECT_EQ(right.ids, (Ids{5, 1, 2, 3, 6, 7, 7, 7}));
  EXPECT_EQ(right.attention_mask, (Ids{1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(right.type_ids, (Ids{0, 0, 0, 0, 0, 2, 2, 2}));
  EXPECT_EQ(right.special_tokens_mask, (Ids{1, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(with(limits(5, "LongestFirst", "Left"), alphabet).ids("abcd"), (Ids{7, 7, 7, 5, 2, 3, 4, 6}));
  EXPECT_EQ(with(limits(6, "LongestFirst", "Right"), alphabet).encode_pair("abcd", "ab").ids,
            (Ids{5, 1, 2, 6, 1, 6, 7, 7}));
  EXPECT_EQ(with(limits(7, "OnlySecond", "Right"), alphabet).encode_pair("ab", "abcd").ids,
            (Ids{5, 1, 2, 6, 1, 2, 6, 7}));
  EXPECT_THROW(with(limits(5, "OnlySecond", "Right"), alphabet).encode_pair("abcd", "a"), Error);
  EXPECT_THROW(with(limits(1, "LongestFirst", "Right"), alphabet).ids("a"), Error);
  EXPECT_EQ(with(limits(5, "LongestFirst", "Right"), alphabet).ids("abcd", {.truncate = false, .pad = false}),
            (Ids{5, 1, 2, 3, 4, 6}));
}

TEST(Bpe, UnknownCharactersAndByteFallback) {
  const auto encode = [](const std::string& options, const std::string& text) {
    return Tokenizer::from_json(R"({"model": {"type": "BPE", )" + options +
                                R"(, "vocab": {"u": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3}, "merges": []}})")
        .encode(text);
  };
  EXPECT_EQ(encode(R"("unk_token": "u")", "xya").ids, (Ids{0, 0, 1}));
  EXPECT_EQ(encode(R"("unk_token": "u", "fuse_unk": true)", "xya").offsets, (Offsets{{0, 2}, {2, 3}}));
  EXPECT_EQ(encode(R"("unk_token": null)", "xay").ids, (Ids{1}));  // left out
  EXPECT_EQ(encode(R"("unk_token": "u", "byte_fallback": true)", "éax").ids, (Ids{2, 3, 1, 0}));
}

// Damaged files must give an Error or a tokenizer that works, never a crash. FOVEA_FUZZ_ROUNDS makes it longer.
TEST(TokenizerFile, DamagedFiles) {
  const std::string good =
      R"x({"version": "1.0", "truncation": {"max_length": 9, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}, "padding": null,
        "added_tokens": [)x" +
      added(9, "<s>", "special, lstrip") + "," + added(10, "XY", "normalized") +
      R"x(], "normalizer": {"type": "Sequence", "normalizers":
        [{"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": "a{2,3}|[b-d]+?x"}, "content": "q"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s)|\\p{L}+|\\s+(?!\\S)"},
        "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]}, )x" +
      kTemplate +
      R"x(, "decoder": {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Fuse"}]}, "model": {"type": "BPE", "unk_token": "a", "fuse_unk": true,
        "byte_fallback": false, "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "[": 5, "]": 6, "é": 7, "\u0130": 8}, "merges": ["a b", ["Ġ", "ab"]]}})x";
  ASSERT_FALSE(Tokenizer::from_json(good).encode("xab <s>XY é").ids.empty());
  for (size_t size = 0; size < good.size(); size += 7) EXPECT_THROW(Tokenizer::from_json(good.substr(0, size)), Error);
  const char* rounds = std::getenv("FOVEA_FUZZ_ROUNDS");
  std::mt19937 random(1);
  int worked = 0;
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 4000); ++round) {
    std::string bad = good;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % bad.size(), size = std::min<size_t>(1 + random() % 12, bad.size() - at);
      switch (random() % 5) {
        case 0:
          bad[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          bad.erase(at, size);
          break;
        case 2:
          bad.insert(at, bad.substr(random() % bad.size(), 12));
          break;
        case 3:
          bad[at] = "0123456789[]{}\",:\\-enut"[random() % 23];
          break;
        default:
          bad.replace(at, size, std::to_string(random()));
          break;
      }
    }
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(bad);
      tokenizer.decode(tokenizer.encode("xab <s>XY é\n aab's", {.pad = false}).ids);
      Tokenizer::from_json(tokenizer.to_json());
      ++worked;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(worked, 0);
}

}  // namespace
}  // namespace fovea
