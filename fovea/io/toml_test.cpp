// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/toml.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "fovea/base/error.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

struct Schedule {
  std::string kind = "cosine";
  int64_t warm_up = 100;
  void visit(FieldVisitor& v) {
    v.field("kind", kind, "cosine, linear or constant");
    v.field("warm_up", warm_up, "steps");
  }
};

struct Optim {
  double learning_rate = 3e-4;
  std::vector<std::string> freeze;
  Schedule schedule;
  void visit(FieldVisitor& v) {
    visit_section(v, "schedule", schedule);  // before a plain field: the dump must still put it last
    v.field("learning_rate", learning_rate, "peak step size");
    v.field("freeze", freeze, "name patterns");
  }
};

struct Recipe {
  std::string position = "rope";
  bool compile = false;
  std::vector<int64_t> sizes = {1, 2};
  Optim optim;
  void visit(FieldVisitor& v) {
    v.field("position", position, "an entry of\nthe registry");
    v.field("compile", compile);
    v.field("sizes", sizes);
    visit_section(v, "optim", optim);
  }
};

using Overrides = std::vector<std::string>;

Recipe fill(const std::string& text, const Overrides& overrides = {}) {
  TomlConfig config = TomlConfig::parse(text, "kjv.toml");
  for (const auto& assignment : overrides) config.override_with(assignment);
  Recipe recipe;
  config.fill(recipe);
  return recipe;
}

std::string error_of(const std::string& text, const Overrides& overrides = {}) {
  return testing_support::error_of(ErrorKind::kConfig, [&] { fill(text, overrides); });
}

TEST(Toml, FieldsAreFilledAndTheRestKept) {
  const Recipe recipe = fill("position = 'alibi'\nsizes = []\n[optim]\nlearning_rate = 1\nschedule.warm_up = 7\n");
  EXPECT_EQ(recipe.position, "alibi");
  EXPECT_TRUE(recipe.sizes.empty());
  EXPECT_EQ(recipe.optim.learning_rate, 1.0);
  EXPECT_EQ(recipe.optim.schedule.warm_up, 7);
  EXPECT_EQ(recipe.optim.schedule.kind, "cosine");
}

TEST(Toml, UnknownKeysNameLineAndNearest) {
  EXPECT_EQ(error_of("\n\n# x\n[optim]\n\n\nleaning_rate = 1\n"),
            "kjv.toml:7: unknown key \"optim.leaning_rate\"; did you mean \"optim.learning_rate\"?");
  EXPECT_EQ(error_of("learning_rate = 1"),
            "kjv.toml:1: unknown key \"learning_rate\"; did you mean \"optim.learning_rate\"?");
  EXPECT_EQ(error_of("\n[optin]\nx = 1"), "kjv.toml:2: unknown key \"optin\"; did you mean \"optim\"?");
  EXPECT_EQ(error_of("optim.schedule.zzzzz = 1"),
            "kjv.toml:1: unknown key \"optim.schedule.zzzzz\"; known: kind, warm_up");
  TomlConfig config = TomlConfig::parse("x = 1\nposition = 'none'", "kjv.toml");
  Recipe recipe;
  config.fill(recipe, UnknownKeys::kIgnore);
  EXPECT_EQ(recipe.position, "none");
}

TEST(Toml, WrongTypesNameLineKeyWantedAndGot) {
  EXPECT_EQ(error_of("\nposition = 3"), "kjv.toml:2: \"position\": wanted a string, got the integer 3");
  EXPECT_EQ(error_of("compile = 'yes'"), "kjv.toml:1: \"compile\": wanted true or false, got the string \"yes\"");
  EXPECT_EQ(error_of("[optim]\nlearning_rate = '3e-4'"),
            "kjv.toml:2: \"optim.learning_rate\": wanted a number, got the string \"3e-4\"");
  EXPECT_EQ(error_of("[optim.schedule]\nwarm_up = 1.0"),
            "kjv.toml:2: \"optim.schedule.warm_up\": wanted an integer, got the number 1");
  EXPECT_EQ(error_of("sizes = [1,\n'a']"), "kjv.toml:1: \"sizes\": wanted a list of integers, got the string \"a\"");
  EXPECT_EQ(error_of("optim = 3"), "kjv.toml:1: \"optim\": wanted a section, got the integer 3");
  EXPECT_EQ(error_of("[position]\nx = 1"), "kjv.toml:1: \"position\": wanted a string, got a section");
  EXPECT_EQ(error_of("[[optim]]\n"), "kjv.toml:1: \"optim\": wanted a section, got a list");
  EXPECT_EQ(error_of("position = 2020-01-01"),
            "kjv.toml:1: \"position\" is a date or time; put it in quotes to mean a text");
}

TEST(Toml, SyntaxErrorsNameLineAndColumn) {
  EXPECT_TRUE(error_of("a = 1\nb = \n").starts_with("kjv.toml:2:5: "));
  EXPECT_TRUE(error_of("compile = true\ncompile = false").starts_with("kjv.toml:2:"));
  EXPECT_TRUE(error_of("[optim").starts_with("kjv.toml:1:"));
  EXPECT_TRUE(error_of("x = " + std::string(100000, '[')).starts_with("kjv.toml:1:"));
}

TEST(Toml, LettersBeyondAsciiStandInStringsAndCommentsOnly) {
  for (const std::string letter : {"\u00e9", "\u0416", "\u304b", "\u4f60", "\ufb29", "\U0001f600"}) {
    for (const auto& text : {"position = '" + letter + "'# " + letter, "'position' = \"" + letter + "\"",
                             "position = '''\n" + letter + "'''", "position = \"\"\"\\\n  " + letter + "\"\"\""})
      EXPECT_EQ(fill(text).position, letter) << text;
    for (const auto& text : {"a = " + letter, letter + " = 1", "sizes = [1, " + letter + "]", "a = 1 " + letter,
                             "[" + letter + "]", "a = 0x" + letter, "a " + letter + " = 1", "a = 1\"" + letter + "\""})
      EXPECT_TRUE(error_of(text).starts_with("kjv.toml:1:")) << text;
  }
}

TEST(Toml, MutatedTextNeverCrashes) {
  Recipe recipe;
  recipe.position = "\u00e9\u304b\n";
  recipe.optim.freeze = {"a", "'"};
  const std::string good = dump_toml(recipe) + "x.\"y z\" = { a = 2020-01-01, b = [0x1F, 1_000.5e-3] } # \u00e9\n";
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (auto edits = 1 + random() % 4; edits-- > 0;) {
      const size_t place = random() % text.size();
      if (random() % 2 != 0) {
        text[place] = static_cast<char>(random() % 128);
      } else if (random() % 2 != 0) {
        text.erase(place, random() % 5);
      } else {
        text.insert(place, random() % 2 != 0 ? "\u00e9" : text.substr(random() % text.size(), random() % 9));
      }
      if (text.empty()) text = "[";
    }
    try {
      TomlConfig::parse(text, "kjv.toml").fill(recipe, UnknownKeys::kIgnore);
    } catch (const Error& error) {
      ASSERT_TRUE(std::string(error.what()).starts_with("kjv.toml:")) << error.what();
    }
  }
}

using TomlFiles = testing_support::ScratchTest;

TEST_F(TomlFiles, AreReadAndMissingOnesAreUsageErrors) {
  put("a.toml", "\xEF\xBB\xBFposition = 'alibi'");
  Recipe recipe;
  TomlConfig::read(at("a.toml")).fill(recipe);
  EXPECT_EQ(recipe.position, "alibi");
  const auto error_of_file = [&](const std::string& name) {
    return testing_support::error_of(ErrorKind::kConfig, [&] { TomlConfig::read(at(name)); });
  };
  EXPECT_HAS(error_of_file("b.toml"), "no such configuration; did you mean");
  put("c.toml", "a = '\xFF'");
  EXPECT_HAS(error_of_file("c.toml"), "c.toml: invalid UTF-8 at byte 5");
}

TEST(TomlOverrides, BeatTheFileAndTheLastWins) {
  const std::string text = "position = 'alibi'\n[optim]\nlearning_rate = 1\n";
  EXPECT_EQ(fill(text, {"optim.learning_rate=3e-4"}).optim.learning_rate, 3e-4);
  EXPECT_EQ(fill(text, {"optim.learning_rate=5", " optim.learning_rate = 0.25 "}).optim.learning_rate, 0.25);
  EXPECT_EQ(fill("", {"optim.schedule.warm_up=3"}).optim.schedule.warm_up, 3);
  EXPECT_TRUE(fill("", {"compile=true"}).compile);
}

TEST(TomlOverrides, AStringFieldTakesTheTextItself) {
  for (const std::string text :
       {"rope", "7", "true", "1e5", "2020-01-01", "a=b", "runs/x y", "[x]", "", "0x10", "\u00e9", "a\nb = 1"})
    EXPECT_EQ(fill("position = 'x'", {"position=" + text}).position, text);
  EXPECT_EQ(fill("", {"position=\"quoted \\n\""}).position, "quoted \n");
  EXPECT_EQ(fill("", {"position='it'"}).position, "it");
  EXPECT_EQ(fill("", {"position=7", "position='8'"}).position, "8");
}

TEST(TomlOverrides, ListsGoWithAndWithoutBrackets) {
  const auto freeze = [](const std::string& text) { return fill("", {"optim.freeze=" + text}).optim.freeze; };
  EXPECT_EQ(freeze("['a', \"b\"]"), (Overrides{"a", "b"}));
  EXPECT_EQ(freeze("*.norm,embed.*"), (Overrides{"*.norm", "embed.*"}));
  EXPECT_EQ(freeze("7"), Overrides{"7"});
  EXPECT_EQ(freeze(""), Overrides{});
  const auto sizes = [](const std::string& text) { return fill("", {"sizes=" + text}).sizes; };
  EXPECT_EQ(sizes("[3, -4]"), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(sizes("3, -4"), (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(sizes("3"), std::vector<int64_t>{3});
  EXPECT_EQ(error_of("", {"sizes=3,x"}), "command line: \"sizes\": wanted a list of integers, got the string \"3,x\"");
}

TEST(TomlOverrides, ErrorsNameTheCommandLine) {
  EXPECT_EQ(error_of("", {"optim.leaning_rate=3"}),
            "command line: unknown key \"optim.leaning_rate\"; did you mean \"optim.learning_rate\"?");
  EXPECT_EQ(error_of("", {"optim.learning_rate=fast"}),
            "command line: \"optim.learning_rate\": wanted a number, got the string \"fast\"");
  EXPECT_EQ(error_of("compile = true", {"compile=1"}),
            "command line: \"compile\": wanted true or false, got the integer 1");
  EXPECT_EQ(error_of("", {"compile"}), "command line: \"compile\" is not of the form key=value");
  EXPECT_EQ(error_of("", {"=3"}), "command line: \"\" has an empty part");
  EXPECT_EQ(error_of("", {"optim..x=3"}), "command line: \"optim..x\" has an empty part");
  EXPECT_EQ(error_of("", {"optim.=3"}), "command line: \"optim.\" has an empty part");
  EXPECT_EQ(error_of("\nposition = 'x'", {"position.kind=3"}),
            "command line: unknown key \"position.kind\": \"position\" is a value, not a section (kjv.toml:2)");
  EXPECT_EQ(error_of("[optim]\nlearning_rate = 1", {"optim=3"}),
            "command line: \"optim\" is a section; set its fields one by one, as in optim.learning_rate=…");
  EXPECT_TRUE(error_of("", {"position=\xFF"}).starts_with("command line: invalid UTF-8 at byte 9"));
}

TEST(TomlDump, ShowsEveryFieldWithItsHelp) {
  EXPECT_EQ(dump_toml(Recipe()),
            "position = \"rope\"  # an entry of the registry\n"
            "compile = false\n"
            "sizes = [1, 2]\n"
            "\n[optim]\n"
            "learning_rate = 3e-4  # peak step size\n"
            "freeze = []           # name patterns\n"
            "\n[optim.schedule]\n"
            "kind = \"cosine\"  # cosine, linear or constant\n"
            "warm_up = 100    # steps\n");
}

TEST(TomlDump, RoundTrip) {
  std::mt19937_64 random(3);
  const double doubles[] = {
      0.0, -0.0, 1.0, 1e-300, 5e-324, 1e22, 0.1, -1.5e300, std::numeric_limits<double>::max(), INFINITY, -INFINITY};
  const std::string strings[] = {"", "a\"b\\c", "line\nline", "tab\t\x01\x7F", "\u00e9\u4f60", "# no comment", "'"};
  for (int round = 0; round < 300; ++round) {
    Recipe recipe;
    const auto text = [&] { return strings[random() % std::size(strings)]; };
    recipe.position = text();
    recipe.compile = random() % 2 != 0;
    recipe.sizes.assign(random() % 4, static_cast<int64_t>(random()));
    recipe.optim.learning_rate = doubles[random() % std::size(doubles)];
    recipe.optim.freeze.assign(random() % 3, text());
    recipe.optim.schedule = {text(), round == 0 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(random())};
    const Recipe back = fill(dump_toml(recipe));
    ASSERT_EQ(dump_toml(back), dump_toml(recipe));
    ASSERT_EQ(back.position, recipe.position);
    ASSERT_EQ(back.optim.freeze, recipe.optim.freeze);
    ASSERT_EQ(back.optim.learning_rate, recipe.optim.learning_rate);
    ASSERT_EQ(std::signbit(back.optim.learning_rate), std::signbit(recipe.optim.learning_rate));
  }
  Recipe nan;
  nan.optim.learning_rate = std::nan("");
  EXPECT_TRUE(std::isnan(fill(dump_toml(nan)).optim.learning_rate));
}

}  // namespace
}  // namespace fovea
