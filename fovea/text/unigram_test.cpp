// Unigram, Metaspace and compiled normalisation rules: small files, values by hand.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/unigram.h"

#include <gtest/gtest.h>

#include <random>

#include "fovea/base/error.h"
#include "fovea/text/charsmap.h"
#include "fovea/text/tokenizer.h"

namespace fovea {
namespace {

using Ids = std::vector<int64_t>;
using Spellings = std::vector<std::string>;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;

// Scores such that "abcd" is best as a whole, "abce" as "ab" "c" "e".
constexpr const char* kVocab =
    R"([["?", 0], ["a", -1.5], ["b", -1.5], ["c", -1.5], ["cd", -2.5], ["ab", -2], ["abc", -5], ["abcd", -3.0],
                                  ["▁", -1], ["▁a", -1.25], ["e", -3]])";

Tokenizer unigram(const std::string& sections = "", const std::string& vocab = kVocab,
                  const std::string& options = R"("unk_id": 0)") {
  return Tokenizer::from_json("{" + sections + (sections.empty() ? "" : ", ") + R"("model": {"type": "Unigram", )" +
                              options + (options.empty() ? "" : ", ") + "\"vocab\": " + vocab + "}}");
}

std::string refusal(const std::string& sections, const std::string& vocab, const std::string& options) {
  try {
    unigram(sections, vocab, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Unigram, TheBestSumOfScores) {
  const Tokenizer tokenizer = unigram();
  EXPECT_EQ(tokenizer.ids("abcd"), (Ids{7}));
  EXPECT_EQ(tokenizer.ids("abce"), (Ids{5, 3, 10}));
  EXPECT_EQ(tokenizer.ids("acd"), (Ids{1, 4}));
  EXPECT_EQ(tokenizer.ids("▁a▁"), (Ids{9, 8}));
  EXPECT_TRUE(tokenizer.ids("").empty());
  // Equal sums: the way whose last token is longer was there first.
  EXPECT_EQ(unigram("", R"([["?", 0], ["a", -1], ["aa", -2]])").ids("aa"), (Ids{2}));
  const Tokenizer twice = unigram("", R"([["?", 0], ["a", -1], ["aa", -2.5], ["a", -1.5], ["", 0]])");
  EXPECT_EQ(twice.ids("aa"), (Ids{2}));
  EXPECT_EQ(twice.decode({1, 3}), "a a");
  EXPECT_EQ(twice.token_to_id("a"), 3);
}

TEST(Unigram, UnknownCharactersFuseAndKeepTheirSpelling) {
  const Encoding encoding = unigram().encode("aéxb☃?");
  EXPECT_EQ(encoding.ids, (Ids{1, 0, 2, 0}));
  EXPECT_EQ(encoding.tokens, (Spellings{"a", "éx", "b", "☃?"}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {1, 3}, {3, 4}, {4, 6}}));
  EXPECT_EQ(unigram().unk_id(), 0);
  // Scores may be such that two unknown characters beat a token of both, which then names them all the same.
  EXPECT_EQ(unigram("", R"([["?", 100], ["xy", 90]])").ids("xy"), (Ids{1}));
  const Tokenizer strict = unigram("", kVocab, "");
  EXPECT_EQ(strict.ids("abcd"), (Ids{7}));
  EXPECT_THROW(strict.ids("aé"), Error);
}

TEST(Unigram, BytesOfUnknownCharacters) {
  const Tokenizer tokenizer =
      unigram("", R"([["?", 0], ["a", -1], ["<0xC3>", 0], ["<0xA9>", 0]])", R"("unk_id": 0, "byte_fallback": true)");
  const Encoding encoding = tokenizer.encode("éaéé");
  EXPECT_EQ(encoding.ids, (Ids{2, 3, 1, 2, 3, 2, 3}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {0, 1}, {1, 2}, {2, 4}, {2, 4}, {2, 4}, {2, 4}}));
  EXPECT_EQ(tokenizer.ids("aéx"), (Ids{1, 0}));  // x has no byte: all of the run is unknown
}

TEST(Unigram, LongTextsInWindows) {
  std::string text;
  Ids ids;
  std::mt19937 random(1);
  while (text.size() < 100'000) {
    const std::string piece = Spellings{"abcd", "acd", "é", "▁a", "éx"}[random() % 5];
    text += piece;
    const Ids part = piece == "abcd" ? Ids{7} : piece == "acd" ? Ids{1, 4} : piece == "▁a" ? Ids{9} : Ids{0};
    if (part == Ids{0} && !ids.empty() && ids.back() == 0) continue;
    // "cd" and "a" do not join across pieces, "▁a" and "b" never meet.
    ids.insert(ids.end(), part.begin(), part.end());
  }
  EXPECT_EQ(unigram().ids(text), ids);
  EXPECT_EQ(unigram().ids(std::string(100'000, 'x')), (Ids{0}));
  // No place of this text is one that all ways share.
  const Ids many = unigram("", R"([["?", 0], ["x", -9], ["xx", -1], ["xxx", -1.4]])").ids(std::string(60'000, 'x'));
  EXPECT_EQ(many, Ids(20'000, 3));
}

TEST(Unigram, WrittenAndReadAgain) {
  const std::string json = unigram(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁"})").to_json();
  EXPECT_NE(json.find("[\"▁a\", -1.25]"), std::string::npos);
  EXPECT_EQ(Tokenizer::from_json(json).to_json(), json);
  EXPECT_EQ(Tokenizer::from_json(R"({"model": {"unk_id": 0, "vocab": [["a", 1e-3]]}})").ids("ab"), (Ids{0}));
}

TEST(Unigram, BadFiles) {
  const auto says = [](const std::string& message, const std::string& vocab,
                       const std::string& options = R"("unk_id": 0)") {
    const std::string have = refusal("", vocab, options);
    EXPECT_NE(have.find(message), std::string::npos) << have;
  };
  says("the vocabulary is empty", "[]");
  says("the vocabulary is empty", "[]", "");
  says("entry 1 has no score", R"([["a", 0], ["b"]])");
  says("entry 0 has no token", "[[]]");
  says("entry 0 is not a token and one score", "[[1]]");
  says("entry 0 is not a token and one score", R"([["a", 1, 2]])");
  says("wanted a token and a score, got string", R"([["a", "b"]])");
  says("wanted a token and a score, got null", R"([["a", null]])");
  says("wanted a token and a score, got array", R"([["a", []]])");
  says("wanted pairs of a token and a score, got string", R"(["a"])");
  says("wanted pairs of a token and a score, got object", R"([{"a": 1}])");
  says("wanted a list of tokens with their scores", R"({"a": 0})");
  says("number overflow", R"([["a", -1e999]])");
  says("unk_id is 1, but there are only 1 tokens", R"([["a", 0]])", R"("unk_id": 1)");
  says("unk_id: wanted a whole number", R"([["a", 0]])", R"("unk_id": -1)");
  says("unk_id: wanted a whole number", R"([["a", 0]])", R"("unk_id": "a")");
  says("field \"nbest\" is not supported", R"([["a", 0]])", R"("unk_id": 0, "nbest": 2)");
  for (const char* type :
       {R"("type": "BPE", "merges": [])",
        R"("type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "", "max_input_chars_per_word": 9)"}) {
    EXPECT_THROW(Tokenizer::from_json(std::string(R"({"model": {"vocab": [["a", 0]], )") + type + "}}"), Error);
  }
}

Offsets words(const std::string& options, const std::string& text) {
  // Unknown characters fuse within a word, so that offsets show the words.
  return unigram(R"("added_tokens": [{"id": 1, "content": "#", "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true}], "pre_tokenizer": {"type": "Metaspace", "replacement": "_")" +
                     options + "}",
                 R"([["?", 0], ["#", -1]])")
      .encode(text)
      .offsets;
}

TEST(Metaspace, WordsStartAtBlanks) {
  EXPECT_EQ(words("", "ab c  d_e "), (Offsets{{0, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 9}, {9, 10}}));
  EXPECT_EQ(words(R"(, "split": false)", "ab c"), (Offsets{{0, 4}}));
}

TEST(Metaspace, SchemesOfThePrefix) {
  const auto tokens = [](const std::string& scheme, const std::string& text) {
    const std::string added = R"("added_tokens": [{"id": 3, "content": "c", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}], )";
    const Tokenizer tokenizer =
        unigram(added + R"("normalizer": {"type": "Strip", "strip_left": true, "strip_right": false},
                   "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")" +
                scheme + "\"}");
    EXPECT_EQ(tokenizer.ids(text), tokenizer.encode(text).ids);
    return tokenizer.encode(text).tokens;
  };
  EXPECT_EQ(tokens("always", "acb"), (Spellings{"▁a", "c", "▁", "b"}));
  EXPECT_EQ(tokens("first", "acb"), (Spellings{"▁a", "c", "b"}));
  EXPECT_EQ(tokens("first", "ca"), (Spellings{"c", "a"}));
  EXPECT_EQ(tokens("first", " a"), (Spellings{"a"}));  // what the normaliser left does not start the text
  EXPECT_EQ(tokens("never", "acb"), (Spellings{"a", "c", "b"}));
  EXPECT_EQ(tokens("always", "▁a"), (Spellings{"▁a"}));
}

TEST(Metaspace, Decoding) {
  const auto decode = [](const std::string& options, const Ids& ids) {
    const Tokenizer tokenizer = unigram(R"("decoder": {"type": "Metaspace", "replacement": "▁")" + options + "}");
    std::string streamed;
    StreamDecoder stream(tokenizer);
    for (const int64_t id : ids) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.flush(), tokenizer.decode(ids));
    return tokenizer.decode(ids);
  };
  EXPECT_EQ(decode("", {9, 2, 9, 8}), "ab a ");
  EXPECT_EQ(decode("", {8, 9}), " a");
  EXPECT_EQ(decode(R"(, "prepend_scheme": "never")", {9, 2, 9}), " ab a");
}

TEST(Metaspace, BadOptions) {
  const auto read = [](const std::string& options) {
    return refusal(R"("pre_tokenizer": {"type": "Metaspace", )" + options + "}", kVocab, "");
  };
  EXPECT_EQ(read(R"("replacement": "_", "add_prefix_space": false, "prepend_scheme": "never", "str_rep": "_")"),
            "no error");
  EXPECT_NE(read(R"("replacement": "_", "add_prefix_space": false)").find("add_prefix_space"), std::string::npos);
  EXPECT_NE(read(R"("replacement": "__")").find("one character"), std::string::npos);
  EXPECT_NE(read(R"("replacement": "")").find("one character"), std::string::npos);
  EXPECT_NE(read(R"("replacement": "_", "prepend_scheme": "allways")").find("\"always\""), std::string::npos);
}

// Rules "A" -> "x", "B" -> "" and "C" -> "yz" as sentencepiece writes them. The root's children start at unit 64 ^
// byte.
std::string rules() {
  std::vector<uint32_t> units(8, 0);
  const auto put_rule = [&](uint32_t byte, uint32_t end, uint32_t value) {
    const uint32_t place = 64 ^ byte;
    units[place] = byte | 1u << 8 | (place ^ end) << 10;
    units[end] = value | 1u << 31;
  };
  units[0] = 64u << 10;
  put_rule('A', 4, 0);
  put_rule('B', 5, 2);
  put_rule('C', 6, 3);
  std::string out;
  const auto put = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
  };
  put(32);
  for (const uint32_t unit : units) put(unit);
  return out + std::string("x\0\0yz\0", 6);
}

TEST(Charsmap, RulesAndWhatIsNone) {
  const text::Charsmap map(rules(), "map");
  EXPECT_EQ(map.find("A"), "x");
  EXPECT_EQ(map.find("AB"), "x");
  EXPECT_EQ(map.find("B"), "");
  EXPECT_EQ(map.find("C"), "yz");
  EXPECT_EQ(map.find("D"), std::nullopt);
  EXPECT_EQ(map.find(std::string_view("\0", 1)), std::nullopt);
  EXPECT_EQ(map.find(""), std::nullopt);
}

TEST(Charsmap, DamagedMaps) {
  const std::string good = rules();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(text::Charsmap(good.substr(0, size), "map"), Error) << size;
  }
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int i = 0; i < 8; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    try {
      const text::Charsmap map(bad, "map");
      for (int c = 0; c < 256; ++c) map.find(std::string(3, static_cast<char>(c)));
    } catch (const Error&) {
    }
  }
}

TEST(Charsmap, Base64) {
  EXPECT_EQ(text::decode_base64("", "x"), "");
  EXPECT_EQ(text::decode_base64("Zg==", "x"), "f");
  EXPECT_EQ(text::decode_base64("Zm8=", "x"), "fo");
  EXPECT_EQ(text::decode_base64("Zm9v+/8A", "x"), std::string("foo\xFB\xFF\0", 6));
  for (const char* bad : {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm9-", "é=="})
    EXPECT_THROW(text::decode_base64(bad, "x"), Error) << bad;
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = i; k < i + 3; ++k) bits = bits << 8 | (k < bytes.size() ? static_cast<uint8_t>(bytes[k]) : 0);
    for (int shift = 18; shift >= 0; shift -= 6) out += kDigits[bits >> shift & 63];
  }
  for (size_t missing = (3 - bytes.size() % 3) % 3; missing > 0; --missing) out[out.size() - missing] = '=';
  return out;
}

TEST(Normalizers, Precompiled) {
  const Tokenizer tokenizer =
      unigram(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ")" + base64(rules()) + "\"}",
              R"([["?", 0], ["x", -1], ["y", -1], ["z", -1], ["e", -1]])");
  EXPECT_EQ(tokenizer.encode("eACe").ids, (Ids{4, 1, 2, 3, 4}));
  EXPECT_EQ(tokenizer.encode("eACe").offsets, (Offsets{{0, 1}, {1, 2}, {2, 3}, {2, 3}, {3, 4}}));
  EXPECT_EQ(tokenizer.encode("A\u0301e").ids, (Ids{1, 4}));  // the rule takes the whole cluster
  EXPECT_EQ(tokenizer.encode("A\u0301e").offsets, (Offsets{{0, 1}, {2, 3}}));
  EXPECT_EQ(tokenizer.encode("A\u0301\u0301\u0301e").ids, (Ids{1, 0, 4}));  // a long one goes by characters
  EXPECT_EQ(tokenizer.encode("eBBe").offsets, (Offsets{{0, 1}, {3, 4}}));
  EXPECT_EQ(tokenizer.encode("CBBe").offsets, (Offsets{{0, 1}, {1, 2}, {3, 4}}));
  EXPECT_EQ(tokenizer.encode("BBexe").offsets, (Offsets{{0, 1}, {1, 2}, {2, 3}}));  // as the package has it
  EXPECT_EQ(tokenizer.ids("BBexe"), tokenizer.encode("BBexe").ids);
  for (const char* bad : {"", "AAAA", "?", "BAAAAAAAAAA="})
    EXPECT_NE(refusal(R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": ")" + std::string(bad) + "\"}",
                      kVocab, "")
                  .find("precompiled_charsmap"),
              std::string::npos);
}

TEST(Normalizers, Nmt) {
  const Encoding encoding =
      unigram(R"("normalizer": {"type": "Nmt"})", R"([["?", 0], ["a", -1], [" ", -1]])").encode("a\u0007\ta\u200Ba");
  EXPECT_EQ(encoding.ids, (Ids{1, 2, 1, 2, 1}));
  EXPECT_EQ(encoding.offsets, (Offsets{{0, 1}, {2, 3}, {3, 4}, {4, 5}, {5, 6}}));
}

}  // namespace
}  // namespace fovea
