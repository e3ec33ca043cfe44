// Folders from before tokenizer.json: what the files leave unsaid is filled in as the original tokenizers had it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/text/tokenizer_file.h"

namespace fovea::text {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// "<unk>" or {"content": "<unk>", …}; nothing for null.
void collect_special(const json& config, const char* key, std::vector<std::string>& out) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  const json* content = &*found;
  if (content->is_object()) {
    const auto inner = content->find("content");
    if (inner == content->end()) return;
    content = &*inner;
  }
  if (!content->is_string()) return;
  const auto token = content->get<std::string>();
  if (std::find(out.begin(), out.end(), token) == out.end()) out.push_back(token);
}

// tokenizer_config.json, or {} where there is none.
json read_config(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!path_exists(path)) return json::object();
  json config = json::parse(read_text(path, "tokenizer configuration"), nullptr, false);
  FOVEA_CHECK_INPUT(config.is_object(), path.native(), ": is not a JSON object");
  return config;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    at = end + 1;
  }
  return out;
}

// Marks those of `tokens` that the vocabulary has as special.
void add_special(TokenizerFile& file, const std::vector<std::string>& tokens) {
  json& added = file.top["added_tokens"] = json::array();
  for (const auto& [token, id] : file.tables.vocab)
    if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) added.push_back(special_token_json(token, id));
}

}  // namespace

json special_token_json(const std::string& token, int64_t id) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

json byte_level_json(bool add_prefix_space) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", false}, {"use_regex", true}};
}

TokenizerFile read_gpt2_folder(const fs::path& folder) {
  // The vocabulary is parsed as if it stood in a tokenizer.json.
  const fs::path vocab = folder / "vocab.json", merges = folder / "merges.txt";
  TokenizerFile file = parse_tokenizer_file(
      "{\"model\":{\"type\":\"BPE\",\"vocab\":" + read_text(vocab, "vocabulary") + "}}", vocab.native());
  const std::string text = read_text(merges, "merges");
  for (const std::string_view line : lines_of(text))
    if (!line.empty() && !line.starts_with("#version"))
      file.tables.merges.push_back(split_merge(std::string(line), merges.native()));
  file.source = folder.native();
  const json config = read_config(folder);
  std::vector<std::string> special = {"<|endoftext|>"};
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) collect_special(config, key, special);
  add_special(file, special);
  const bool prefix = config.value("add_prefix_space", json(false)) == json(true);
  file.top["pre_tokenizer"] = file.top["decoder"] = file.top["post_processor"] = byte_level_json(prefix);
  return file;
}

TokenizerFile read_bert_folder(const fs::path& folder) {
  TokenizerFile file;
  file.source = folder.native();
  const std::string text = read_text(folder / "vocab.txt", "vocabulary");
  for (const std::string_view line : lines_of(text))
    file.tables.vocab.emplace_back(line, static_cast<int64_t>(file.tables.vocab.size()));
  const json config = read_config(folder);
  const auto flag = [&](const char* key, json otherwise) {
    const auto found = config.find(key);
    return found == config.end() ? otherwise : *found;
  };
  const auto token = [&](const char* key, const char* otherwise) {
    std::vector<std::string> found;
    collect_special(config, key, found);
    return found.empty() ? std::string(otherwise) : found[0];
  };
  const std::string unknown = token("unk_token", "[UNK]"), first = token("cls_token", "[CLS]"),
                    separator = token("sep_token", "[SEP]");
  add_special(file, {unknown, first, separator, token("pad_token", "[PAD]"), token("mask_token", "[MASK]")});
  const auto id_of = [&](const std::string& content) {
    for (const json& added : file.top["added_tokens"])
      if (added["content"] == content) return added["id"].get<uint64_t>();  // unsigned, as a parser gives them
    throw Error(ErrorKind::kInput,
                detail::concat(folder.native(), "/vocab.txt: the token \"", content, "\" is missing"));
  };
  file.top["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", flag("tokenize_chinese_chars", true)},
                            {"strip_accents", flag("strip_accents", nullptr)},
                            {"lowercase", flag("do_lower_case", true)}};
  file.top["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file.top["post_processor"] = {{"type", "BertProcessing"},
                                {"sep", json::array({separator, id_of(separator)})},
                                {"cls", json::array({first, id_of(first)})}};
  file.top["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file.top["model"] = {{"type", "WordPiece"},
                       {"unk_token", unknown},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100}};
  return file;
}

}  // namespace fovea::text
