// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"
#include "fovea/text/pipeline.h"
#include "fovea/text/utf8_step.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// tokenizer_config.json may name the tokens of the roles, as "<s>" or {"content": "<s>", …}.
void read_roles(const fs::path& path, text::Pipeline& pipeline) {
  const json config = json::parse(read_text(path, "tokenizer configuration"), nullptr, false);
  FOVEA_CHECK_INPUT(config.is_object(), path.native(), ": is not a JSON object");
  const auto read = [&](const char* key, std::optional<int64_t>& role) {
    auto value = config.find(key);
    if (value == config.end()) return;
    const json* content = &*value;
    if (content->is_object() && content->contains("content")) content = &content->at("content");
    if (!content->is_string()) return;
    if (const auto id = pipeline.token_to_id(content->get<std::string>())) role = id;
  };
  read("bos_token", pipeline.roles.bos);
  read("eos_token", pipeline.roles.eos);
  read("pad_token", pipeline.roles.pad);
  read("unk_token", pipeline.roles.unk);
  read("mask_token", pipeline.roles.mask);
}

constexpr const char* kSourceFile = "source_tokenizer.json";

text::TokenizerFile read_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  const fs::path file = folder / "tokenizer.json";
  if (!has("tokenizer.json") && has("vocab.json") && has("merges.txt")) return text::read_gpt2_folder(folder);
  if (!has("tokenizer.json") && has("vocab.txt")) return text::read_bert_folder(folder);
  return text::parse_tokenizer_file(read_text(file, "tokenizer"), file.native());
}

}  // namespace

Tokenizer text::make_tokenizer(TokenizerFile file) { return Tokenizer(std::make_shared<Pipeline>(std::move(file))); }

Tokenizer Tokenizer::load(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const fs::path file = folder ? path / "tokenizer.json" : path;
  auto pipeline = std::make_shared<text::Pipeline>(
      folder ? read_folder(path) : text::parse_tokenizer_file(read_text(file, "tokenizer"), file.native()));
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  if (fs::exists(config, ignored)) read_roles(config, *pipeline);
  Tokenizer out(std::move(pipeline));
  const fs::path source = path / kSourceFile;
  if (!folder || !fs::exists(source, ignored)) return out;
  return out.with_source(from_json(read_text(source, "tokenizer"), source.native()));
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view source) {
  check_utf8(json, source);
  return text::make_tokenizer(text::parse_tokenizer_file(json, source));
}

std::string Tokenizer::to_json() const {
  std::string out;
  pipeline_->write_json(out);
  return out;
}

void Tokenizer::save(const fs::path& path) const {
  if (path.extension() == ".json") return write_file(path, to_json());
  std::error_code code;
  fs::create_directories(path, code);
  FOVEA_CHECK_KIND(ErrorKind::kSystem, !code, path.native(), ": cannot create the folder: ", code.message());
  write_file(path / "tokenizer.json", to_json());
  if (source_) return write_file(path / kSourceFile, source().to_json());
  fs::remove(path / kSourceFile, code);  // of a tokenizer that was saved here before
}

Tokenizer Tokenizer::source() const { return Tokenizer(source_ ? source_ : pipeline_); }

Tokenizer Tokenizer::with_source(const Tokenizer& source) const {
  Tokenizer out = *this;
  out.source_ = source.pipeline_;
  return out;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return pipeline_->encode_all({text}, options, true);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const {
  return pipeline_->encode_all({first, second}, options, true);
}

std::vector<int64_t> Tokenizer::ids(std::string_view text, const EncodeOptions& options) const {
  return pipeline_->encode_all({text}, options, false).ids;
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  std::vector<text::DecodedPart> parts;
  parts.reserve(ids.size());
  for (const int64_t id : ids) {
    text::DecodedPart part = pipeline_->part(id);
    if (!skip_special_tokens || !pipeline_->is_special(id)) parts.push_back(std::move(part));
  }
  return pipeline_->join(std::move(parts));
}

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const { return pipeline_->token_to_id(token); }
std::optional<std::string> Tokenizer::id_to_token(int64_t id) const { return pipeline_->id_to_token(id); }
int64_t Tokenizer::vocab_size() const { return pipeline_->vocab_size; }
int64_t Tokenizer::end_id() const { return pipeline_->end_id; }
bool Tokenizer::is_special(int64_t id) const { return pipeline_->is_special(id); }
std::optional<int64_t> Tokenizer::bos_id() const { return pipeline_->roles.bos; }
std::optional<int64_t> Tokenizer::eos_id() const { return pipeline_->roles.eos; }
std::optional<int64_t> Tokenizer::pad_id() const { return pipeline_->roles.pad; }
std::optional<int64_t> Tokenizer::unk_id() const { return pipeline_->roles.unk; }
std::optional<int64_t> Tokenizer::mask_id() const { return pipeline_->roles.mask; }

std::vector<std::pair<size_t, size_t>> byte_offsets(std::string_view text,
                                                    const std::vector<std::pair<int64_t, int64_t>>& code_points) {
  std::vector<size_t> starts;  // byte at which each character starts, and the end
  for (size_t i = 0; i < text.size(); ++i) {
    if (text::starts_character(text[i])) starts.push_back(i);
  }
  starts.push_back(text.size());
  const auto byte = [&](int64_t code_point) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, code_point >= 0 && static_cast<size_t>(code_point) < starts.size(),
                     "byte_offsets: offset ", code_point, " in a text of ", starts.size() - 1, " code points");
    return starts[static_cast<size_t>(code_point)];
  };
  std::vector<std::pair<size_t, size_t>> out;
  out.reserve(code_points.size());
  for (const auto& [begin, end] : code_points) out.emplace_back(byte(begin), byte(end));
  return out;
}

std::pair<size_t, size_t> byte_offsets(std::string_view text, std::pair<int64_t, int64_t> code_points) {
  return byte_offsets(text, std::vector{code_points}).front();
}

}  // namespace fovea
