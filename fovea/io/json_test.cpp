// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "fovea/base/error.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

using namespace testing_support;
using nlohmann::json;

struct Inner {
  double rate = 0.5;
  std::vector<std::string> names = {"a"};
  void visit(FieldVisitor& v) {
    v.field("rate", rate, "a number");
    v.field("names", names);
  }
};

struct Outer {
  bool on = false;
  int64_t layers = 2;
  std::string kind = "rope";
  std::vector<int64_t> sizes = {1, 2};
  Inner inner;
  void visit(FieldVisitor& v) {
    v.field("on", on);
    v.field("layers", layers);
    v.field("kind", kind);
    v.field("sizes", sizes);
    visit_section(v, "inner", inner);
  }
};

std::string parse_error(std::string_view text) {
  return error_of(ErrorKind::kInput, [&] { parse_json(text, "c.json"); });
}
std::string fill_error(const json& object, UnknownKeys unknown = UnknownKeys::kError) {
  Outer outer;
  return error_of(ErrorKind::kInput, [&] { fill_from_json(outer, object, "c.json", unknown); });
}

TEST(Json, ValuesParseAsWithTheLibrarysOwnBuilder) {
  for (const auto text : {"null", "[]", "{}", "[1,-2,3.5,true,null,\"x\",[{}],{\"a\":[]}]", "\"\\u00e9\\ud83d\\ude00\"",
                          "18446744073709551615", "{\"b\":{\"c\":[1,{\"d\":2}]},\"a\":0}", " \n7\t"})
    EXPECT_EQ(parse_json(text, "x"), json::parse(text)) << text;
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_TRUE(parse_error("{\n  \"a\": 1,\n  \"b\": x\n}").starts_with("c.json:3:8: syntax error"));
  EXPECT_TRUE(parse_error("").starts_with("c.json:1:1: syntax error"));
  EXPECT_TRUE(parse_error("{\"a\":1").starts_with("c.json:1:7: "));
  EXPECT_TRUE(parse_error("[1] 2").starts_with("c.json:1:5: "));
  EXPECT_EQ(parse_error("[1e999]"), "c.json:1:6: number overflow parsing '1e999'");
  EXPECT_NE(parse_error("\"\\ud800\"").find("surrogate"), std::string::npos);
  EXPECT_TRUE(parse_error("\"\xFF\"").starts_with("c.json: invalid UTF-8 at byte 1 (0xff)"));
  EXPECT_LT(parse_error("[" + std::string(100000, 'x') + "]").size(), 300u);
  EXPECT_LT(parse_error("[\"" + std::string(100000, 'x') + "]").size(), 300u);
}

TEST(Json, WhatOthersResolveSilentlyIsRefused) {
  EXPECT_EQ(parse_error("{\"a\":1,\"b\":{\"a\":1},\"a\":2}"), "c.json: key \"a\" is given twice in one object");
  EXPECT_EQ(parse_error("{\"b\":{\"a\":1},\"a\":2}"), "no error");
  EXPECT_NE(parse_error(std::string(1000000, '[')).find("more than 500"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 1000000; ++i) deep += "{\"a\":";
  EXPECT_NE(parse_error(deep).find("more than 500"), std::string::npos);
}

TEST(Json, MutatedTextNeverCrashes) {
  const std::string good = dump_json(json{{"a", {1, 2.5, "x\ty", nullptr}}, {"b", {{"c", true}, {"d", "\u00e9"}}}}, 1);
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (auto edits = 1 + random() % 4; edits-- > 0;) {
      const size_t place = random() % text.size();
      if (random() % 2 != 0)
        text[place] = static_cast<char>(random());
      else if (random() % 2 != 0)
        text.erase(place, random() % 5);
      else
        text.insert(place, text.substr(random() % text.size(), random() % 9));
      if (text.empty()) text = "[";
    }
    const std::string message = parse_error(text);
    ASSERT_TRUE(message == "no error" || message.starts_with("c.json")) << message;
  }
}

using JsonFiles = ScratchTest;

TEST_F(JsonFiles, AreReadAndNamed) {
  const auto path = at("config.json");
  put("config.json", "\xEF\xBB\xBF{\"a\": [1]}");
  EXPECT_EQ(read_json(path), json({{"a", {1}}}));
  put("config.json", "{\n]");
  EXPECT_TRUE(error_of(ErrorKind::kInput, [&] { read_json(path); }).starts_with(path.native() + ":2:1: "));
  EXPECT_NE(error_of(ErrorKind::kInput, [&] { read_json(at("x"), "index"); }).find("no such index"), std::string::npos);
}

TEST(Json, DumpIsSafe) {
  EXPECT_EQ(dump_json({{"a", {1, 2}}}), "{\"a\":[1,2]}");
  EXPECT_EQ(dump_json({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(dump_json("a\xFFz\u4f60"), "\"a\uFFFDz\u4f60\"");
  EXPECT_EQ(dump_json({std::nan(""), INFINITY}), "[null,null]");
  EXPECT_EQ(parse_json(dump_json(0.1), "x").get<double>(), 0.1);
}

TEST(JsonConfig, FieldsAreFilledAndTheRestKept) {
  Outer outer;
  fill_from_json(outer, {{"on", true}, {"sizes", {7}}, {"layers", nullptr}, {"inner", {{"rate", 3}}}}, "c.json");
  EXPECT_TRUE(outer.on);
  EXPECT_EQ(outer.layers, 2);  // null keeps the default
  EXPECT_EQ(outer.sizes, std::vector<int64_t>{7});
  EXPECT_EQ(outer.inner.rate, 3.0);
  EXPECT_EQ(outer.inner.names, std::vector<std::string>{"a"});
}

TEST(JsonConfig, RoundTrip) {
  Outer outer;
  outer.on = true;
  outer.layers = std::numeric_limits<int64_t>::min();
  outer.kind = "\u00e9\n\"";
  outer.sizes = {};
  outer.inner = {1e-300, {"x", ""}};
  json object = {{"other", 1}};
  write_to_json(outer, object);
  EXPECT_EQ(object["other"], 1);
  Outer back;
  fill_from_json(back, parse_json(dump_json(object), "x"), "x", UnknownKeys::kIgnore);
  EXPECT_TRUE(back.on);
  EXPECT_EQ(back.layers, outer.layers);
  EXPECT_EQ(back.kind, outer.kind);
  EXPECT_EQ(back.sizes, outer.sizes);
  EXPECT_EQ(back.inner.rate, outer.inner.rate);
  EXPECT_EQ(back.inner.names, outer.inner.names);
}

TEST(JsonConfig, WrongTypesNameKeyWantedAndGot) {
  EXPECT_EQ(fill_error({{"on", 1}}), "c.json: \"on\": wanted true or false, got the integer 1");
  EXPECT_EQ(fill_error({{"layers", "12"}}), "c.json: \"layers\": wanted an integer, got the string \"12\"");
  EXPECT_EQ(fill_error({{"layers", 2.5}}), "c.json: \"layers\": wanted an integer, got the number 2.5");
  EXPECT_EQ(fill_error({{"layers", 1ull << 63}}),
            "c.json: \"layers\": wanted an integer, got the integer 9223372036854775808");
  EXPECT_EQ(fill_error({{"kind", json::array()}}), "c.json: \"kind\": wanted a string, got a list");
  EXPECT_EQ(fill_error({{"sizes", {1, true}}}), "c.json: \"sizes\": wanted a list of integers, got true");
  EXPECT_EQ(fill_error({{"sizes", 3}}), "c.json: \"sizes\": wanted a list of integers, got the integer 3");
  EXPECT_EQ(fill_error({{"inner", {{"rate", json::object()}}}}),
            "c.json: \"inner.rate\": wanted a number, got a section");
  EXPECT_EQ(fill_error({{"inner", {{"names", {1}}}}}),
            "c.json: \"inner.names\": wanted a list of strings, got the integer 1");
  EXPECT_EQ(fill_error({{"inner", 3}}), "c.json: \"inner\": wanted a section, got the integer 3");
  EXPECT_EQ(fill_error(json::array()), "c.json: wanted an object, got a list");
}

TEST(JsonConfig, UnknownKeysAreRefusedWithTheNearestName) {
  EXPECT_EQ(fill_error({{"layer", 1}}), "c.json: unknown key \"layer\"; did you mean \"layers\"?");
  EXPECT_EQ(fill_error({{"inner", {{"rat", 1}}}}), "c.json: unknown key \"inner.rat\"; did you mean \"inner.rate\"?");
  EXPECT_EQ(fill_error({{"rate", 1}}), "c.json: unknown key \"rate\"; did you mean \"inner.rate\"?");
  EXPECT_EQ(fill_error({{"inner", {{"zzzzzz", 1}}}}), "c.json: unknown key \"inner.zzzzzz\"; known: rate, names");
  EXPECT_EQ(fill_error({{"layer", 1}, {"inner", {{"rat", 1}}}}, UnknownKeys::kIgnore), "no error");
}

}  // namespace
}  // namespace fovea
