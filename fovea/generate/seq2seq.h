// An encoder-decoder and its tokenizer, from one folder: it answers a text by another, a translation or a summary.
//
//   Seq2Seq bart = Seq2Seq::load("bart-large-cnn");
//   std::string summary = bart.generate(article);  // beams, lengths and forced tokens as the folder says
//   GenerateOptions options = bart.defaults;
//   options.beams = 6;
//   summary = bart.generate(article, options);
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/generate/generate.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct Seq2Seq {
  GenerativeModel model;
  Tokenizer tokenizer;
  GenerateOptions defaults;  // as the folder says

  // config.json, model.safetensors, tokenizer.json and, where there is one, generation_config.json; Error(kInput) where
  // one is missing, they do not fit each other, or the model has no encoder.
  static Seq2Seq load(const std::filesystem::path& folder);
  // Writes the first three.
  void save(const std::filesystem::path& folder) const;

  std::string generate(std::string_view source) const { return generate(source, defaults); }
  std::string generate(std::string_view source, const GenerateOptions& options) const;
  // Several together, in one batch: the best answer to each.
  std::vector<std::string> generate_all(const std::vector<std::string>& sources) const {
    return generate_all(sources, defaults);
  }
  std::vector<std::string> generate_all(const std::vector<std::string>& sources, const GenerateOptions& options) const;
};

}  // namespace fovea
