// A model that writes and its tokenizer, from one folder.
//
//   CausalLM gpt = CausalLM::load("runs/kjv/best");
//   gpt.stream("And God said", {.temperature = 0.8, .seed = 1}, [](std::string_view piece) { std::cout << piece; });
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "fovea/generate/generate.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct CausalLM {
  GenerativeModel model;
  Tokenizer tokenizer;
  GenerateOptions defaults;  // as the folder says

  // config.json, model.safetensors, tokenizer.json and, where there is one, generation_config.json; Error(kInput) where
  // one is missing or they do not fit each other.
  static CausalLM load(const std::filesystem::path& folder);
  // Writes the first three.
  void save(const std::filesystem::path& folder) const;

  // The text after `prompt`. The folder's end tokens end it, unless options name others.
  std::string generate(std::string_view prompt) const { return generate(prompt, defaults); }
  std::string generate(std::string_view prompt, GenerateOptions options) const;
  // The same, handing over each piece as soon as it is whole characters.
  std::string stream(std::string_view prompt, GenerateOptions options,
                     const std::function<void(std::string_view piece)>& on_piece) const;
};

}  // namespace fovea
