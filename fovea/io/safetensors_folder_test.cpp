// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/safetensors_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/io/json.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;
using nlohmann::json;

struct SafetensorsFolderTest : ScratchTest {
  std::string folder_error(const std::string& name = "") const {
    return error_of(ErrorKind::kInput, [&] { SafetensorsFolder weights(at(name)); });
  }
};

TEST_F(SafetensorsFolderTest, AFullDiskLeavesTheOldWeights) {
  write_safetensors_folder(at(""), {{"w", at::ones({2})}});
  const std::string old = read_file(at("model.safetensors"));
  NamedTensors large;
  for (const auto* name : {"a", "b", "c"}) large.emplace_back(name, at::zeros({1 << 14}));
  large.emplace_back("d", at::zeros({1 << 18}));
  for (const uint64_t shard : {uint64_t{0}, uint64_t{1} << 16}) {
    const FileSizeLimit limit(1 << 18);
    EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { write_safetensors_folder(at(""), large, shard); }), "cannot write");
    EXPECT_EQ(entries(), 1);
    EXPECT_EQ(read_file(at("model.safetensors")), old);
  }
}

TEST_F(SafetensorsFolderTest, ShardsAndIndexSurviveTheRoundTrip) {
  NamedTensors tensors;
  for (int i = 0; i < 7; ++i) tensors.emplace_back("h." + std::to_string(i), at::full({10}, i, at::kFloat));
  tensors.emplace_back("large", at::ones({100}));
  write_safetensors_folder(at(""), tensors, 100);
  const json index = read_json(at("model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 4 * 170);
  EXPECT_EQ(index["weight_map"]["h.3"], "model-00002-of-00005.safetensors");
  EXPECT_EQ(index["weight_map"]["large"], "model-00005-of-00005.safetensors");
  for (const auto& path : {at(""), at("model.safetensors.index.json")}) {
    const SafetensorsFolder weights(path);
    EXPECT_EQ(weights.files().size(), 5u);
    EXPECT_EQ(weights.names().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(weights.tensor(name), tensor));
    EXPECT_EQ(weights.file("h.3").path().filename(), "model-00002-of-00005.safetensors");
    EXPECT_FALSE(weights.contains("h.7"));
    EXPECT_HAS(error_of(ErrorKind::kInput, [&] { weights.info("h.x"); }), "no tensor \"h.x\"");
  }
  // Fewer shards, then one file: nothing of the former set stays.
  write_safetensors_folder(at(""), tensors, 300);
  EXPECT_EQ(SafetensorsFolder(at("")).files().size(), 2u);
  write_safetensors_folder(at(""), tensors);
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(SafetensorsFolder(at("")).names().size(), tensors.size());
  EXPECT_EQ(SafetensorsFolder(at("model.safetensors")).names().size(), tensors.size());
  EXPECT_HAS(error_of(ErrorKind::kArgument,
                      [&] {
                        write_safetensors_folder(at(""), {{"w", at::ones({9})}, {"w", at::ones({9})}}, 4);
                      }),
             "given twice");
}

struct SafetensorsShardsTest : SafetensorsFolderTest {
  void write_index(const json& weight_map) const {
    put("model.safetensors.index.json", dump_json({{"weight_map", weight_map}}));
  }
  void SetUp() override {
    write_safetensors(at("one.safetensors"), {{"a", at::ones({1})}, {"b", at::ones({1})}});
    write_safetensors(at("two.safetensors"), {{"c", at::ones({1})}});
    write_index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  }
};

TEST_F(SafetensorsShardsTest, AreComplete) {
  EXPECT_EQ(folder_error(), "no error");
  fs::remove(at("two.safetensors"));
  EXPECT_EQ(folder_error(),
            at("two.safetensors").native() +
                ": this shard is missing; model.safetensors.index.json expects 1 tensor(s) in it, \"c\" first");
}

TEST_F(SafetensorsShardsTest, HoldEachTensorOnce) {
  write_safetensors(at("two.safetensors"), {{"c", at::ones({1})}, {"a", at::ones({1})}});
  EXPECT_HAS(folder_error(),
             "two.safetensors: tensor \"a\" is given twice; " + at("one.safetensors").native() + " holds it too");
}

TEST_F(SafetensorsShardsTest, AgreeWithTheirIndex) {
  write_index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}, {"d", "two.safetensors"}});
  EXPECT_HAS(folder_error(), "two.safetensors: lacks tensor \"d\", which model.safetensors.index.json expects in it");
  write_index({{"a", "one.safetensors"}, {"c", "two.safetensors"}});
  EXPECT_HAS(folder_error(), "one.safetensors: holds tensor \"b\", which model.safetensors.index.json does not name");
  put("two.safetensors", "cut");
  write_index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  EXPECT_HAS(folder_error(), "two.safetensors: 3 bytes are too few");
}

TEST_F(SafetensorsShardsTest, StayInTheirFolder) {
  for (const std::string shard : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", ".", ""}) {
    write_index({{"a", shard}});
    EXPECT_HAS(folder_error(), "is not a plain file name") << shard;
  }
}

TEST_F(SafetensorsShardsTest, MalformedIndexesAreRefused) {
  const auto with_index = [&](const std::string& text) {
    put("model.safetensors.index.json", text);
    return folder_error();
  };
  EXPECT_HAS(with_index("{"), "model.safetensors.index.json:1:");
  EXPECT_HAS(with_index("[]"), "has no object \"weight_map\"");
  EXPECT_HAS(with_index("{\"weight_map\":[]}"), "has no object \"weight_map\"");
  EXPECT_HAS(with_index("{\"weight_map\":{\"a\":1}}"), "the shard of tensor \"a\" is not a string");
  EXPECT_HAS(with_index("{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}}"), "given twice");
}

TEST_F(SafetensorsShardsTest, TwoSetsInOneFolderAreRefused) {
  write_safetensors(at("model.safetensors"), {{"a", at::ones({1})}});
  EXPECT_HAS(folder_error(), "holds both model.safetensors and model.safetensors.index.json");
  write_index({{"a", "model.safetensors"}});
  EXPECT_EQ(folder_error(), "no error");
}

TEST_F(SafetensorsFolderTest, FoldersWithoutWeightsSaySo) {
  EXPECT_HAS(folder_error(), "holds neither model.safetensors nor model.safetensors.index.json");
  EXPECT_HAS(folder_error("nowhere"), "there is no such folder");
  put("pytorch_model.bin", "x");
  EXPECT_HAS(folder_error(), "pytorch_model.bin is not read");
  EXPECT_HAS(folder_error("x.safetensors"), "no such safetensors file");
}

}  // namespace
}  // namespace fovea
