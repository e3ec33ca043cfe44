// A pipeline from the sections of tokenizer.json, checked as a whole, and back.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/text/pipeline.h"

namespace fovea::text {
namespace {

using nlohmann::json;

AddedToken read_added_token(const json& object, const std::string& where) {
  Fields fields(object, where);
  AddedToken token;
  token.id = fields.integer("id");
  token.content = fields.string("content");
  token.single_word = fields.boolean("single_word");
  token.left_strip = fields.boolean("lstrip");
  token.right_strip = fields.boolean("rstrip");
  token.normalized = fields.boolean("normalized");
  token.special = fields.boolean("special");
  fields.finish();
  return token;
}

// Usual spellings of a role, the likeliest first.
constexpr std::array<std::string_view, 6> kBos = {"<s>",   "<bos>",        "<|begin_of_text|>", "<|startoftext|>",
                                                  "[BOS]", "<|endoftext|>"};
constexpr std::array<std::string_view, 5> kEos = {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[EOS]"};
constexpr std::array<std::string_view, 4> kPad = {"<pad>", "[PAD]", "<|pad|>", "<|padding|>"};
constexpr std::array<std::string_view, 2> kUnk = {"<unk>", "[UNK]"};
constexpr std::array<std::string_view, 2> kMask = {"[MASK]", "<mask>"};

}  // namespace

Pipeline::Pipeline(TokenizerFile file) : source(std::move(file.source)), sections(std::move(file.top)) {
  file.source = source;
  Fields top(sections, source);
  const std::string version = top.string("version", "1.0");
  FOVEA_CHECK_INPUT(version == "1.0", source, ": version \"", version, "\" is not supported; only \"1.0\" is");
  const auto section = [&](const char* name) -> const json& {
    static const json kNull;
    return top.has(name) ? top.at(name) : kNull;
  };
  const auto where = [&](const char* name) { return source + ": " + name; };
  normalizer = read_normalizer(section("normalizer"), where("normalizer"));
  pre_tokenizer = read_pre_tokenizer(section("pre_tokenizer"), where("pre_tokenizer"));
  post_processor = read_post_processor(section("post_processor"), where("post_processor"));
  decoder = read_decoder(section("decoder"), where("decoder"));
  if (top.has("truncation")) truncation = read_truncation(sections["truncation"], where("truncation"));
  if (top.has("padding")) padding = read_padding(sections["padding"], where("padding"));
  file.top["model"] = top.at("model");
  model = read_model(file, pre_tokenizer != nullptr && pre_tokenizer->byte_level());
  top.has("added_tokens");
  top.finish();
  added = AddedTokens(read_added_tokens(), [&](const std::string& content) {
    if (normalizer == nullptr) return content;
    AlignedText text(Piece{content}, false);
    normalizer->apply(text);
    return text.text();
  });
  vocab_size = static_cast<int64_t>(model->size());
  end_id = model->end_id();
  for (const AddedToken& token : added.tokens()) {
    if (!model->token_to_id(token.content)) ++vocab_size;
    end_id = std::max(end_id, token.id + 1);
  }
  find_roles();
  sections.erase("model");
}

std::vector<AddedToken> Pipeline::read_added_tokens() const {
  const auto list = sections.find("added_tokens");
  std::vector<AddedToken> tokens;
  if (list == sections.end() || list->is_null()) return tokens;
  const std::string where = source + ": added_tokens";
  FOVEA_CHECK_INPUT(list->is_array(), where, ": wanted a list, got ", list->type_name());
  std::set<std::string> seen;
  int64_t last = -1;
  for (size_t i = 0; i < list->size(); ++i) {
    AddedToken token = read_added_token((*list)[i], where + "[" + std::to_string(i) + "]");
    FOVEA_CHECK_INPUT(!token.content.empty(), where, ": token ", token.id, " is empty");
    FOVEA_CHECK_INPUT(seen.insert(token.content).second, where, ": the token \"", token.content, "\" is given twice");
    // Ids follow from the vocabulary: a file that says otherwise was not made for it.
    const auto size = static_cast<int64_t>(model->size());
    const int64_t expected =
        model->token_to_id(token.content).value_or(last >= size || (size == 0 && last >= 0) ? last + 1 : size);
    FOVEA_CHECK_INPUT(token.id == expected, where, ": the token \"", token.content, "\" has the id ", token.id,
                      ", but by the vocabulary it must be ", expected);
    last = std::max(last, token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void Pipeline::find_roles() {
  const auto by_name = [&](const auto& names) -> std::optional<int64_t> {
    for (const std::string_view name : names) {
      const AddedToken* token = added.find(name);
      if (token != nullptr && token->special) return token->id;
    }
    return std::nullopt;
  };
  roles.bos = by_name(kBos);
  roles.eos = by_name(kEos);
  roles.pad = padding ? std::optional(padding->token.id) : by_name(kPad);
  const std::string unknown = model->unknown_token();
  roles.mask = by_name(kMask);
  roles.unk = unknown.empty() ? by_name(kUnk) : token_to_id(unknown);
}

void Pipeline::write_json(std::string& out) const {
  const auto section = [&](const char* name) {
    const auto found = sections.find(name);
    return std::string("  ") + json_string(name) + ": " + (found == sections.end() ? "null" : found->dump()) + ",\n";
  };
  out += "{\n  \"version\": \"1.0\",\n" + section("truncation") + section("padding") + "  \"added_tokens\": [";
  const char* separator = "\n    ";
  for (const AddedToken& token : added.tokens()) {
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    out += separator + ("{\"id\": " + std::to_string(token.id)) + ", \"content\": " + json_string(token.content) +
           ", \"single_word\": " + flag(token.single_word) + ", \"lstrip\": " + flag(token.left_strip) +
           ", \"rstrip\": " + flag(token.right_strip) + ", \"normalized\": " + flag(token.normalized) +
           ", \"special\": " + flag(token.special) + "}";
    separator = ",\n    ";
  }
  out += added.tokens().empty() ? "],\n" : "\n  ],\n";
  for (const char* name : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) out += section(name);
  out += "  \"model\": ";
  model->write_json(out);
  out += "\n}\n";
}

}  // namespace fovea::text
