// A folder's weights find their model under all names they are known by, and whatever does not fit is said by name.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/pretrained.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/io/json.h"
#include "fovea/models/gpt2.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

using testing_support::ScratchTest;

Gpt2 small_gpt2(bool tied = true) {
  at::manual_seed(1);
  Gpt2 model(Gpt2Config{.vocab_size = 11, .positions = 12, .width = 8, .layers = 2, .heads = 2, .tied = tied});
  for (auto& item : model->named_parameters())
    item.value().data().normal_();  // biases and norms that are not their start
  model->eval();
  return model;
}

Tensor logits_of(const ModelImpl& model) {
  const at::NoGradGuard no_grad;
  return model.forward({.ids = at::arange(10, at::kLong).view({2, 5})});
}

struct PretrainedFolder : ScratchTest {
  Gpt2 model = small_gpt2();
  nlohmann::json config = model->config();
  NamedTensors tensors = stored_tensors(*model, [](const Tensor& parameter) { return parameter; });

  Tensor& tensor(const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; })->second;
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& item) { return item.first == name; });
  }
  void write() const {
    put("config.json", dump_json(config));
    write_safetensors(at("model.safetensors"), tensors);
  }
  Model load() const {
    write();
    return load_pretrained_model(folder.path());
  }
  std::string error(ErrorKind kind = ErrorKind::kInput) const {
    return testing_support::error_of(kind, [&] { load(); });
  }
  void expect_same_model() const { EXPECT_TRUE(at::equal(logits_of(*load()), logits_of(*model))); }
  void rename(const std::function<std::string(const std::string&)>& to) {
    for (auto& [name, value] : tensors) name = to(name);
  }
};

TEST_F(PretrainedFolder, SavedAndLoadedIsTheSameModel) {
  for (const bool tied : {true, false}) {
    for (const uint64_t shard : {0, 2000}) {
      const auto saved = small_gpt2(tied);
      save_pretrained(*saved, at("saved"), shard);
      EXPECT_EQ(std::filesystem::exists(at("saved") / "model.safetensors.index.json"), shard > 0);
      const auto loaded = load_pretrained_model(at("saved"));
      EXPECT_TRUE(at::equal(logits_of(*loaded), logits_of(*saved)));
      EXPECT_EQ(loaded->config(), saved->config());
      EXPECT_FALSE(loaded->is_training());
    }
  }
}

TEST_F(PretrainedFolder, WhatDoesNotFitIsListed) {
  remove("transformer.h.1.ln_1.bias");
  tensor("transformer.wpe.weight") = at::zeros({13, 8});
  tensors.emplace_back("transformer.h.2.ln_1.bias", at::zeros({8}));
  const std::string said = error();
  EXPECT_HAS(said, "1 missing: transformer.h.1.ln_1.bias");
  EXPECT_HAS(said, "1 unexpected: transformer.h.2.ln_1.bias");
  EXPECT_HAS(said, "1 of another shape or type: transformer.wpe.weight: file [13, 8], model [12, 8]");
}

TEST_F(PretrainedFolder, NumbersOfAnotherWidthAreConvertedIntegersAreNoWeights) {
  for (auto& [name, value] : tensors) value = value.to(at::kBFloat16);
  const auto narrow = load();
  EXPECT_EQ(narrow->parameters().front().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(logits_of(*narrow), logits_of(*model), 0.1, 0.5));
  tensor("transformer.wpe.weight") = at::zeros({12, 8}, at::kChar);
  EXPECT_HAS(error(), "transformer.wpe.weight: I8, wanted floating-point numbers");
}

TEST_F(PretrainedFolder, AnOuterPrefixMayLackOrBeAnother) {
  rename([](const std::string& name) { return name.substr(std::string("transformer.").size()); });
  expect_same_model();
  rename([](const std::string& name) { return "transformer." + name; });
  for (const std::string extra : {"module.", "model.", "_orig_mod."}) {
    rename([&](const std::string& name) { return extra + name; });
    expect_same_model();
    rename([&](const std::string& name) { return name.substr(extra.size()); });
  }
}

TEST_F(PretrainedFolder, NormsMayHaveTheirOldNames) {
  int renamed = 0;
  rename([&](const std::string& name) {
    if (name.find("ln_") == name.npos) return name;
    ++renamed;
    const std::string stem = name.substr(0, name.rfind('.'));
    return stem + (name.ends_with(".weight") ? ".gamma" : ".beta");
  });
  EXPECT_EQ(renamed, 10);
  expect_same_model();
}

TEST_F(PretrainedFolder, MaskBuffersOfOldFilesArePassedOver) {
  for (const std::string layer : {"transformer.h.0.", "transformer.h.1."}) {
    tensors.emplace_back(layer + "attn.bias", at::ones({1, 1, 12, 12}, at::kBool).tril());
    tensors.emplace_back(layer + "attn.masked_bias", at::full({}, -1e4));
  }
  expect_same_model();
}

// transformers #38870, vllm #6758: one stored name left the other empty without a word; an extra one stopped loading.
TEST_F(PretrainedFolder, TiedWeightsAreStoredOnceOrTwice) {
  const Tensor table = tensor("transformer.wte.weight");
  expect_same_model();  // the embedding only
  tensors.emplace_back("lm_head.weight", table.clone());
  expect_same_model();                                             // both
  EXPECT_EQ(load()->parameter_count(), model->parameter_count());  // one tensor
  remove("transformer.wte.weight");
  expect_same_model();  // the output head only
  remove("lm_head.weight");
  EXPECT_HAS(error(), "1 missing: transformer.wte.weight");
  tensors.emplace_back("transformer.wte.weight", table);
  tensors.emplace_back("lm_head.weight", table + 1);
  EXPECT_HAS(error(), "\"transformer.wte.weight\" and \"lm_head.weight\" are one tensor in this model");
}

TEST_F(PretrainedFolder, UntiedWeightsAreTwoTensors) {
  const auto untied = small_gpt2(false);
  config = untied->config();
  EXPECT_HAS(error(), "1 missing: lm_head.weight");
  tensors = stored_tensors(*untied, [](const Tensor& parameter) { return parameter; });
  EXPECT_TRUE(at::equal(logits_of(*load()), logits_of(*untied)));
}

TEST_F(PretrainedFolder, AConfigThatChangesTheResultIsRefused) {
  const auto says = [&](const char* key, const nlohmann::json& value, const char* part) {
    const nlohmann::json before = std::exchange(config[key], value);
    const std::string said = error();
    EXPECT_HAS(said, part);
    EXPECT_HAS(said, "config.json");
    config[key] = before;
  };
  says("scale_attn_weights", false, "\"scale_attn_weights\": false is not supported, only true");
  says("scale_attn_by_inverse_layer_idx", true, "\"scale_attn_by_inverse_layer_idx\": true is not supported");
  says("add_cross_attention", true, "\"add_cross_attention\": true is not supported");
  says("n_head", "2", "\"n_head\": wanted an integer, got the string \"2\"");
  says("n_head", 2.5, "\"n_head\": wanted an integer, got the number 2.5");
  says("n_head", true, "\"n_head\": wanted an integer, got true");
  says("n_layer", 0, "\"n_layer\" is 0, wanted a positive number");
  says("n_embd", uint64_t{1} << 63, "\"n_embd\": wanted an integer, got the integer 9223372036854775808");
  says("tie_word_embeddings", 1, "\"tie_word_embeddings\": wanted true or false, got the integer 1");
  says("layer_norm_epsilon", "small", "\"layer_norm_epsilon\": wanted a number, got the string \"small\"");
  says("n_embd", 9, "width 9 does not divide into 2 heads");
  says("activation_function", "gelu_mew", "did you mean \"gelu_new\"");
  says("model_type", "gtp2", "did you mean \"gpt2\"");
  says("model_type", 5, "\"model_type\": wanted a string, got the integer 5");
}

TEST_F(PretrainedFolder, TheTransformersConfigIsCheckedToo) {
  config = {{"model_type", "transformer"}, {"vocab_size", "11"}};
  EXPECT_HAS(error(), "\"vocab_size\": wanted an integer, got the string \"11\"");
  config = {{"model_type", "transformer"}, {"vocab_size", 11}, {"width", "8"}};
  EXPECT_HAS(error(), "\"width\"");
  config = {{"model_type", "transformer"}};
  EXPECT_HAS(error(), "vocab_size is 0");
  config = {{"architectures", 7}};
  EXPECT_HAS(error(), "known model types");
  config = nlohmann::json::array();
  EXPECT_HAS(error(), "wanted an object");
}

}  // namespace
}  // namespace fovea
