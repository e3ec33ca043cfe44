// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fovea/base/error.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

struct SafetensorsTest : ScratchTest {
  std::string open_error(const std::string& bytes) const {
    put("x", bytes);
    return error_of(ErrorKind::kInput, [&] { SafetensorsFile file(at("x")); });
  }
  std::string header_error(const std::string& header, const std::string& data) const {
    return open_error(with_length(header.size(), header + data));
  }
};

constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                     at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

NamedTensors one_of_each_type() {
  NamedTensors out;
  for (const auto type : kTypes)
    out.emplace_back(c10::toString(type), (at::randn({2, 3, 5}) * 40).to(at::kLong).to(type));
  out.emplace_back("scalar", at::scalar_tensor(2.5, at::kFloat));
  out.emplace_back("empty", at::empty({3, 0, 2}, at::kLong));
  out.emplace_back("\u4f60\"\\", at::ones({1}, at::kByte));
  return out;
}

TEST_F(SafetensorsTest, EveryTypeSurvivesTheRoundTrip) {
  at::manual_seed(1);
  const auto tensors = one_of_each_type();
  write_safetensors(at("x"), tensors, {{"format", "pt"}, {"note", "a\n\u4f60"}});
  const SafetensorsFile file(at("x"));
  EXPECT_EQ(file.names().size(), tensors.size());
  EXPECT_TRUE(std::is_sorted(file.names().begin(), file.names().end()));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "a\n\u4f60"}}));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.tensor(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
    EXPECT_EQ(file.info(name).shape, tensor.sizes().vec());
  }
}

TEST_F(SafetensorsTest, LayoutIsThatOfTheFormatsOwnWriter) {
  write_safetensors(at("x"), {{"b", at::zeros({2}, at::kFloat)},
                              {"a", at::zeros({3}, at::kHalf)},
                              {"c", at::zeros({1}, at::kLong)},
                              {"a2", at::zeros({}, at::kFloat)}});
  const std::string bytes = read_file(at("x"));
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  std::string header = bytes.substr(8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(header, "{\"__metadata__\":{\"format\":\"pt\"}," + entry("c", "I64", "[1]", "[0,8]") + "," +
                        entry("a2", "F32", "[]", "[8,12]") + "," + entry("b", "F32", "[2]", "[12,20]") + "," +
                        entry("a", "F16", "[3]", "[20,26]") + "}");
  EXPECT_EQ(bytes.size(), 8 + length + 26);
}

TEST_F(SafetensorsTest, ViewsKeepTheMapAliveAndNeverChangeTheFile) {
  write_safetensors(at("x"), {{"w", at::arange(6, at::kFloat)}});
  const std::string before = read_file(at("x"));
  at::Tensor view;
  {
    const SafetensorsFile file(at("x"));
    view = file.tensor("w");
    EXPECT_EQ(view.const_data_ptr(), file.tensor("w").const_data_ptr());  // no copy
  }
  fs::remove(at("x"));
  view.mul_(2);
  EXPECT_EQ(view[5].item<float>(), 10);
  write_file(at("x"), before);
  EXPECT_EQ(SafetensorsFile(at("x")).tensor("w")[5].item<float>(), 5);
}

TEST_F(SafetensorsTest, MisalignedDataIsCopied) {
  const float values[] = {1.5f, -2.0f};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  for (size_t blanks = 0; blanks < 8; ++blanks) {
    ASSERT_EQ(header_error("{" + entry("w", "F32", "[2]", "[0,8]") + "}" + std::string(blanks, ' '), data), "no error");
    EXPECT_TRUE(at::equal(SafetensorsFile(at("x")).tensor("w"), at::tensor({1.5f, -2.0f})));
  }
}

TEST_F(SafetensorsTest, AnyStridesAreWritten) {
  const at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
  write_safetensors(at("x"), {{"t", base.t()},
                              {"expanded", at::ones({1}).expand({3, 2})},
                              {"slice", base.slice(1, 1, 6, 2)},
                              {"grad", at::ones({2}).requires_grad_()}});
  const SafetensorsFile file(at("x"));
  EXPECT_TRUE(at::equal(file.tensor("t"), base.t()));
  EXPECT_TRUE(at::equal(file.tensor("expanded"), at::ones({3, 2})));
  EXPECT_TRUE(at::equal(file.tensor("slice"), base.slice(1, 1, 6, 2)));
  EXPECT_FALSE(file.tensor("grad").requires_grad());
}

TEST_F(SafetensorsTest, MetadataWithoutTensorsLoads) {
  write_safetensors(at("x"), {}, {{"only", "this"}});
  const SafetensorsFile file(at("x"));
  EXPECT_TRUE(file.names().empty());
  EXPECT_EQ(file.metadata().at("only"), "this");
  EXPECT_EQ(header_error("{\"__metadata__\":{}}", ""), "no error");
  EXPECT_EQ(header_error("{}", ""), "no error");
}

TEST_F(SafetensorsTest, UnknownNamesAreErrorsWithTheNearest) {
  write_safetensors(at("x"), {{"h.0.weight", at::ones({1})}});
  const SafetensorsFile file(at("x"));
  EXPECT_EQ(error_of(ErrorKind::kInput, [&] { file.tensor("h.0.weigth"); }),
            at("x").native() + ": no tensor \"h.0.weigth\"; did you mean \"h.0.weight\"?");
}

TEST_F(SafetensorsTest, BadLengthsAreRefused) {
  EXPECT_HAS(open_error(""), "/x: 0 bytes are too few for a safetensors file");
  EXPECT_HAS(open_error("1234567"), "7 bytes are too few");
  const auto length_error = [&](uint64_t length) { return open_error(with_length(length, "{}")); };
  EXPECT_EQ(length_error(2), "no error");
  EXPECT_HAS(length_error(0), "does not begin with '{'");
  EXPECT_HAS(length_error(1), "(header):1:2: ");
  EXPECT_HAS(length_error(3), "claims a header of 3 bytes but the file ends at 10; the download is cut short");
  EXPECT_HAS(length_error(100'000'001), "claims a header of 100,000,001 bytes, more than the format allows");
  for (const uint64_t length : {~uint64_t{0}, ~uint64_t{0} - 7, ~uint64_t{0} - 8, uint64_t{1} << 63})
    EXPECT_HAS(length_error(length), "more than the format allows");
}

TEST_F(SafetensorsTest, OtherFormatsAreRecognised) {
  EXPECT_HAS(open_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "Git LFS pointer");
  EXPECT_HAS(open_error("PK\x03\x04 and so on"), "zip archive");
  EXPECT_HAS(open_error("<!doctype html>"), "web page");
  fs::remove(at("x"));
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { SafetensorsFile file(at("x")); }), "no such safetensors file");
}

TEST_F(SafetensorsTest, MalformedHeadersAreRefused) {
  const std::string big(1 << 12, '\0');
  const std::pair<std::string, std::string> cases[] = {
      {"[]", "does not begin with '{'"},
      {" {}", "does not begin with '{'"},
      {"{", "(header):1:2: "},
      {"{}x", "(header):1:3: "},
      {"{\"\xFF\":1}", "(header): invalid UTF-8 at byte 2"},
      {"{\"w\":1}", "tensor \"w\" lacks one of dtype, shape, data_offsets"},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", "lacks one of"},
      {"{" + entry("w", "F32", "[1]", "[0,4]") + "," + entry("w", "F32", "[1]", "[4,8]") + "}",
       "key \"w\" is given twice"},
      {"{" + entry("w", "F8_E4M3", "[4]", "[0,4]") + "}", "tensor \"w\" has dtype \"F8_E4M3\"; fovea reads F64"},
      {"{" + entry("w", "f32", "[1]", "[0,4]") + "}", "has dtype \"f32\""},
      {"{\"w\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype is not a string"},
      {"{" + entry("w", "F32", "[1000,1000]", "[0,4]") + "}",
       "shape [1000, 1000] of F32 needs 4,000,000 bytes, its data_offsets give 4"},
      {"{" + entry("w", "F32", "[1]", "[4,0]") + "}", "data_offsets end before they begin (4..0)"},
      {"{" + entry("w", "F32", "[1]", "[4]") + "}", "data_offsets must be two non-negative integers, got [4]"},
      {"{" + entry("w", "F32", "[1]", "[0,4,8]") + "}", "must be two"},
      {"{" + entry("w", "F32", "[1]", "[-4,0]") + "}", "must be two"},
      {"{" + entry("w", "F32", "[1]", "[0.0,4.0]") + "}", "must be two"},
      {"{" + entry("w", "F32", "[1]", "null") + "}", "must be two"},
      {"{" + entry("w", "F32", "[-1]", "[0,4]") + "}", "shape must hold non-negative integers, got [-1]"},
      {"{" + entry("w", "F32", "[1.0]", "[0,4]") + "}", "shape must hold"},
      {"{" + entry("w", "F32", "4", "[0,4]") + "}", "shape must be a list"},
      {"{" + entry("w", "F32", "[4294967296,4294967296]", "[0,0]") + "}", "overflows 64 bits"},
      {"{" + entry("w", "F64", "[2305843009213693952]", "[0,0]") + "}", "overflows 64 bits"},  // 2^61 · 8 = 2^64
      {"{" + entry("w", "F32", "[0,4294967296,4294967296]", "[0,0]") + "}", "overflows 64 bits"},
      {"{" + entry("w", "F32", "[18446744073709551615]", "[0,0]") + "}", "overflows 64 bits"},
      {"{" + entry("w", "F32", "[1]", "[18446744073709551612,18446744073709551616]") + "}", "must be two"},
      {"{" + entry("w", "U8", "[4]", "[18446744073709551608,18446744073709551612]") + "}", "but the file ends at"},
      {"{" + entry("a", "F32", "[512]", "[0,2048]") + "," + entry("b", "F32", "[512]", "[2044,4092]") + "}",
       "tensor \"b\" overlaps tensor \"a\" (bytes "},
      {"{" + entry("a", "F32", "[1024]", "[0,4096]") + "," + entry("b", "F32", "[1024]", "[0,4096]") + "}", "overlaps"},
      {"{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1022]", "[8,4096]") + "}",
       "(a hole before \"b\")"},
      {"{" + entry("b", "F32", "[1023]", "[4,4096]") + "}", "(a hole before \"b\")"},
      {"{" + entry("a", "F32", "[1]", "[0,4]") + "}", "the last 4,092 bytes belong to no tensor"},
      {"{}", "the last 4,096 bytes belong to no tensor"},
      {"{\"__metadata__\":3}", "__metadata__ is not an object"},
      {"{\"__metadata__\":{\"a\":1}}", "__metadata__ \"a\" is not a string"},
      {"{\"w\":" + std::string(100000, '['), "more than 500"},
  };
  for (const auto& [header, fact] : cases) {
    const std::string message = header_error(header, big);
    EXPECT_HAS(message, fact) << "\nheader: " << header.substr(0, 200);
    EXPECT_TRUE(message.starts_with(at("x").native())) << message;
  }
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_HAS(header_error("{" + entry("w", "U8", shape + "]", "[0,1]") + "}", "x"), "at most 64");
}

TEST_F(SafetensorsTest, TruncatedFilesNameTensorAndBytes) {
  write_safetensors(at("x"), {{"a", at::zeros({256})}, {"b", at::zeros({576})}});
  const std::string whole = read_file(at("x"));
  const size_t start = whole.size() - 4 * (256 + 576);
  for (size_t size = 0; size < whole.size(); size += size < start ? 1 : 101) {
    EXPECT_NE(open_error(whole.substr(0, size)), "no error") << size;
  }
  EXPECT_EQ(open_error(whole.substr(0, whole.size() - 1348)),
            at("x").native() +
                ": tensor \"b\" claims bytes 1,184..3,488 but the file ends at 2,140; the download is cut short");
}

TEST_F(SafetensorsTest, AMutatedHeaderIsRefusedOrHarmless) {
  // Every tensor of an accepted mutant is read whole: a range outside the map would crash this test.
  at::manual_seed(2);
  write_safetensors(at("x"), one_of_each_type());
  const std::string good = read_file(at("x"));
  uint64_t length;
  std::memcpy(&length, good.data(), 8);
  const std::string tokens[] = {
      "0",       "-1", "18446744073709551615", "\"", "[", "]", "{", "}", ",", ":", "null", "1e9",
      "\"F64\"", "F8", "9223372036854775807"};
  std::mt19937 random(11);
  size_t accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (auto edits = 1 + random() % 3; edits-- > 0;) {
      const size_t place = round % 10 == 0 ? random() % 8 : 8 + random() % length;
      const std::string& token = tokens[random() % std::size(tokens)];
      switch (random() % 5) {
        case 0:
          bytes[place] = static_cast<char>(random());
          break;
        case 1:
          bytes[place] = static_cast<char>('0' + random() % 10);
          break;
        case 2:
          bytes.replace(place, token.size(), token);
          break;  // same length: offsets stay
        case 3:
          bytes.insert(place, token);
          break;
        default:
          bytes.resize(8 + random() % bytes.size());
      }
      bytes.resize(std::max<size_t>(bytes.size(), 8 + length), ' ');
    }
    put("mutant", bytes);
    try {
      const SafetensorsFile file(at("mutant"));
      for (const auto& name : file.names()) file.tensor(name).sum();
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kInput)) << error.what();
      ASSERT_TRUE(std::string(error.what()).starts_with(at("mutant").native())) << error.what();
    }
  }
  EXPECT_LT(accepted, 400u);  // names and equal-sized types may change unnoticed
}

TEST_F(SafetensorsTest, ABooleanIsZeroOrOne) {
  header_error("{" + entry("m", "BOOL", "[3]", "[0,3]") + "}", std::string("\x00\x01\x02", 3));
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { SafetensorsFile(at("x")).tensor("m"); }), "neither 0 nor 1");
}

TEST_F(SafetensorsTest, WhatCannotBeWrittenIsRefusedBeforeAnythingIs) {
  write_file(at("x"), "old");
  const auto refused = [&](const NamedTensors& tensors) {
    return error_of(ErrorKind::kArgument, [&] { write_safetensors(at("x"), tensors); });
  };
  const at::Tensor w = at::ones({2});
  EXPECT_HAS(refused({{"w", w}, {"w", w}}), "tensor \"w\" is given twice");
  EXPECT_HAS(refused({{"__metadata__", w}}), "keeps for its metadata");
  EXPECT_HAS(refused({{"a\xFF", w}}), "not UTF-8");
  EXPECT_HAS(refused({{"w", at::Tensor()}}), "undefined");
  EXPECT_HAS(refused({{"w", w.to(at::kComplexFloat)}}), "has type ComplexFloat");
  EXPECT_HAS(refused({{"w", at::ones({2, 2}).to_sparse()}}), "not dense");
  EXPECT_EQ(read_file(at("x")), "old");
}

}  // namespace
}  // namespace fovea
