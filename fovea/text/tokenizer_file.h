// tokenizer.json in memory: small sections as JSON, the two large tables (vocabulary, merges) as vectors, read in one
// pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/text/json_text.h"
#include "fovea/text/model.h"

namespace fovea::text {

struct ModelTables {
  std::vector<std::pair<std::string, int64_t>> vocab;
  // The vocabulary was a list of tokens with scores (Unigram), not an object of tokens and ids; then vocab has their
  // places in it.
  bool scored = false;
  std::vector<double> scores;
  std::vector<std::pair<std::string, std::string>> merges;
};

struct TokenizerFile {
  std::string source;  // for errors
  nlohmann::json top;  // without model.vocab and model.merges
  ModelTables tables;
};

// Error(kInput) `source:line:column: …` for what is not JSON, `source: …` for a table of the wrong form.
TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view source);
// GPT-2's older form: vocab.json, merges.txt and, where it exists, the special tokens of tokenizer_config.json.
TokenizerFile read_gpt2_folder(const std::filesystem::path& folder);
// BERT's older form: vocab.txt, one token a line; tokenizer_config.json may say do_lower_case and the like.
TokenizerFile read_bert_folder(const std::filesystem::path& folder);

using ModelReader = std::unique_ptr<Model> (*)(Fields& fields, ModelTables& tables, bool byte_level);

// By the "type" of the section "model". `byte_level`: words arrive as bytes (see PreTokenizer::byte_level).
std::unique_ptr<Model> read_model(TokenizerFile& file, bool byte_level);

// "a b", as older files write a merge, in two. Error(kInput) `where: …` for another number of parts.
std::pair<std::string, std::string> split_merge(const std::string& line, const std::string& where);

// Parts of a tokenizer.json that we write ourselves.
nlohmann::json special_token_json(const std::string& token, int64_t id);
nlohmann::json byte_level_json(bool add_prefix_space = false);

// The readers that components.cpp lists.
std::unique_ptr<Model> read_bpe(Fields& fields, ModelTables& tables, bool byte_level);
std::unique_ptr<Model> read_unigram(Fields& fields, ModelTables& tables, bool byte_level);
std::unique_ptr<Model> read_wordpiece(Fields& fields, ModelTables& tables, bool byte_level);

}  // namespace fovea::text
