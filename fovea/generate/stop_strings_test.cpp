// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/stop_strings.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

struct Seen {
  std::string shown;
  bool found;
};

// Feeds `text` in pieces of `size` bytes.
Seen feed(const std::vector<std::string>& stops, const std::string& text, size_t size) {
  StopStrings stream(stops);
  std::string shown;
  for (size_t at = 0; at < text.size() && !stream.found(); at += size) shown += stream.push(text.substr(at, size));
  shown += stream.finish();
  return {shown, stream.found()};
}

TEST(StopStrings, AreFoundWhereverThePiecesAreCut) {
  for (size_t size = 1; size <= 20; ++size) {
    const Seen seen = feed({"\n\n", "END"}, "one\ntwo EN\n\nEND", size);
    EXPECT_EQ(seen.shown, "one\ntwo EN") << size;
    EXPECT_TRUE(seen.found);
  }
}

TEST(StopStrings, TheOneThatIsCompleteFirstCounts) {
  for (size_t size = 1; size <= 6; ++size) {
    EXPECT_EQ(feed({"cd", "bcde"}, "abcde", size).shown, "ab") << size;
    EXPECT_EQ(feed({"bcde", "cd"}, "abcde", size).shown, "ab") << size;
    EXPECT_EQ(feed({"d", "bcd"}, "abcde", size).shown, "a") << size;  // both end at d: the longer
  }
}

TEST(StopStrings, HoldBackOnlyWhatMayBecomeOne) {
  StopStrings stream({"aab"});
  EXPECT_EQ(stream.push("x"), "x");
  EXPECT_EQ(stream.push("a"), "");
  EXPECT_EQ(stream.push("a"), "");
  EXPECT_EQ(stream.push("a"), "a");  // "aa" may still go on
  EXPECT_EQ(stream.push("c"), "aac");
  EXPECT_EQ(stream.push("ya"), "y");
  EXPECT_EQ(stream.finish(), "a");
  EXPECT_FALSE(stream.found());
}

TEST(StopStrings, NothingComesAfterOne) {
  StopStrings stream({"."});
  EXPECT_EQ(stream.push("a.b"), "a");
  EXPECT_TRUE(stream.found());
  EXPECT_EQ(stream.push("c"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StopStrings, WithoutAnyTextPasses) {
  StopStrings stream;
  EXPECT_EQ(stream.push("a"), "a");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_FALSE(stream.found());
}

}  // namespace
}  // namespace fovea
