// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/utf8.h"

#include <gtest/gtest.h>

#include "fovea/base/error.h"

namespace fovea {
namespace {

constexpr size_t npos = std::string_view::npos;
using namespace std::string_view_literals;

std::string encode(char32_t code_point) {
  std::string out;
  append_utf8(out, code_point);
  return out;
}

std::string message_of(std::string_view bytes) {
  try {
    check_utf8(bytes, "text.txt");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

// One comparison a code point instead of six: a million of gtest's own take seconds.
bool survives(char32_t c) {
  const std::string bytes = encode(c);
  size_t position = 0;
  bool good = find_invalid_utf8(bytes) == npos && decode_utf8(bytes, position) == c && position == bytes.size() &&
              count_code_points(bytes) == 1;
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    const std::string_view part = std::string_view(bytes).substr(0, cut);
    good = good && find_invalid_utf8(part) == 0 && complete_utf8_prefix(part) == 0;
  }
  return good;
}

TEST(Utf8, EveryCodePointSurvivesTheRoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c)
    if (c < 0xD800 || c > 0xDFFF)
      if (!survives(c)) FAIL() << uint32_t{c};
}

TEST(Utf8, FirstInvalidByteIsFound) {
  const std::pair<std::string_view, size_t> cases[] = {
      {"", npos},
      {"a\0b"sv, npos},
      {"\x80", 0},                      // a continuation alone
      {"abc\xFF", 3},                   // never in UTF-8
      {"\xC0\xAF", 0},                  // overlong '/'
      {"\xC1\xBF", 0},                  // overlong U+7F
      {"\xE0\x9F\xBF", 0},              // overlong U+7FF
      {"\xF0\x8F\xBF\xBF", 0},          // overlong U+FFFF
      {"a\xED\xA0\x80", 1},             // U+D800, a surrogate
      {"a\xED\xBF\xBF", 1},             // U+DFFF
      {"\xED\x9F\xBF", npos},           // U+D7FF
      {"\xF4\x8F\xBF\xBF", npos},       // U+10FFFF
      {"\xF4\x90\x80\x80", 0},          // U+110000
      {"\xF5\x80\x80\x80", 0},          //
      {"ok \xE4\xBD", 3},               // cut off
      {"ok \xE4\xBDx", 3},              // interrupted
      {"\xE4\xBD\xA0\xE5\xA5", 3},      // the second of two is cut off
      {"0123456789abcdef\xC3\x28", 16}  // after whole words of ASCII
  };
  for (const auto& [bytes, position] : cases) EXPECT_EQ(find_invalid_utf8(bytes), position) << bytes;
}

TEST(Utf8, WordWiseScanFindsAPairAnywhere) {
  // The steps of eight ASCII bytes must neither hide nor invent anything.
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string pair = {static_cast<char>(first), static_cast<char>(second)};
      const size_t alone = find_invalid_utf8(pair);
      for (const size_t offset : {1, 6, 7, 8, 15}) {
        const std::string text = std::string(offset, 'x') + pair + std::string(9, 'y');
        const size_t found = find_invalid_utf8(text);
        if (found != (alone == npos ? npos : offset + alone)) FAIL() << first << ' ' << second << ' ' << offset;
      }
    }
  }
}

TEST(Utf8, ErrorsNameSourceByteAndLikelyEncoding) {
  EXPECT_EQ(message_of("valid"), "");
  EXPECT_TRUE(message_of("abc\xFF").starts_with("text.txt: invalid UTF-8 at byte 3 (0xff)"));
  EXPECT_NE(message_of("\xFF\xFEh\0i\0"sv).find("UTF-16"), npos);
  EXPECT_NE(message_of("\xFE\xFF\0h\0i"sv).find("UTF-16"), npos);
  EXPECT_NE(message_of("\xFF\xFE\0\0h\0\0\0"sv).find("UTF-32"), npos);
  EXPECT_NE(message_of("\xC4\xE3\xBA\xC3\xA3\xAC\xCA\xC0\xBD\xE7").find("GB18030"), npos);
  EXPECT_NE(message_of("un caf\xE9 au lait, tr\xE8s bon").find("Windows-1252"), npos);
  EXPECT_NE(message_of("\xE4\xBD\xA0\xE5\xA5").find("cut off"), npos);
  // After real UTF-8 one bad byte is one bad byte.
  EXPECT_TRUE(message_of("\xE4\xBD\xA0\xFF ok").ends_with("(0xff)"));
  EXPECT_TRUE(message_of("\xE4\xBD\xA0\xA5\xE4\xBD\xA0\xE4\xBD\xA0\xA5").ends_with("(0xa5)"));
  // A file of UTF-8 and one of GB18030 joined.
  EXPECT_NE(message_of("\xE4\xBD\xA0\n\xC4\xE3\xBA\xC3\xA3\xAC\xCA\xC0\n\xE4\xBD\xA0").find("line may be GB18030"),
            npos);
}

TEST(Utf8, DecodeOfInvalidBytesMovesOn) {
  size_t position = 1;
  EXPECT_EQ(decode_utf8("a\xE4\xBDz", position), U'\uFFFD');
  EXPECT_EQ(position, 2u);
}

TEST(Utf8, AppendRefusesWhatIsNoCharacter) {
  std::string text;
  for (const char32_t bad : {0xD800, 0xDFFF, 0x110000}) EXPECT_THROW(append_utf8(text, bad), Error);
  EXPECT_EQ(text, "");
}

TEST(Utf8, StreamsAreCutAtWholeCharacters) {
  const std::string text = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80";  // a é 你 😀
  const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t length = 0; length <= text.size(); ++length)
    EXPECT_EQ(complete_utf8_prefix(std::string_view(text).substr(0, length)), whole[length]) << length;
  // What cannot become a character does not hold the stream up.
  for (const auto bytes : {"ab\xFF"sv, "ab\x80"sv, "\x80\x80\x80\x80"sv, "a\xE0\x80"sv, "a\xED\xA0"sv})
    EXPECT_EQ(complete_utf8_prefix(bytes), bytes.size());
}

TEST(Utf8, CodePointsAreCounted) {
  EXPECT_EQ(count_code_points(""), 0u);
  EXPECT_EQ(count_code_points("a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80"), 4u);
}

}  // namespace
}  // namespace fovea
