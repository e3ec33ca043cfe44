// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/model_folder.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/models/pretrained.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// A folder's configuration is input here, not the user's command: exit code 3, and the folder's name.
template <class Action>
auto as_input(const fs::path& folder, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool named = text.find(folder.native()) != std::string::npos;
    const bool input = error.kind() == ErrorKind::kConfig || error.kind() == ErrorKind::kArgument;
    throw Error(input ? ErrorKind::kInput : error.kind(), named ? text : folder.native() + ": " + text);
  }
}

// One id or a list of them.
std::vector<int64_t> ids_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  if (found->is_number_integer()) return {found->get<int64_t>()};
  std::vector<int64_t> out;
  if (found->is_array())
    for (const auto& id : *found)
      if (id.is_number_integer()) out.push_back(id.get<int64_t>());
  return out;
}

void find_roles(ModelFolder& folder) {
  const nlohmann::json config = read_json(folder.path / "config.json", "model configuration");
  nlohmann::json generation = nlohmann::json::object();
  if (path_exists(folder.path / "generation_config.json"))
    generation = read_json(folder.path / "generation_config.json");
  const auto inside = [&](int64_t id) { return id >= 0 && id < folder.model->vocab_size(); };
  const auto first_known = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      for (const nlohmann::json* source : {&std::as_const(generation), &config})
        if (const auto ids = ids_of(*source, key); !ids.empty() && inside(ids.front())) return ids;
    return std::vector<int64_t>();
  };
  folder.end_ids = first_known({"eos_token_id"});
  std::erase_if(folder.end_ids, [&](int64_t id) { return !inside(id); });
  if (folder.end_ids.empty())
    if (const auto id = folder.tokenizer.eos_id()) folder.end_ids = {*id};
  if (const auto ids = first_known({"decoder_start_token_id", "bos_token_id"}); !ids.empty()) folder.start_id = ids[0];
  if (!folder.start_id) folder.start_id = folder.tokenizer.bos_id();
}

}  // namespace

ModelFolder open_model_folder(const fs::path& path) {
  const auto begin = std::chrono::steady_clock::now();
  return as_input(path, [&] {
    ModelFolder out{path, load_pretrained_model(path), Tokenizer::load(path), {}, {}, 0};
    FOVEA_CHECK_INPUT(out.tokenizer.end_id() <= out.model->vocab_size(), path.native(),
                      ": the tokenizer has ids up to ", out.tokenizer.end_id() - 1, ", the model's vocabulary has ",
                      out.model->vocab_size(), " tokens; the tokenizer does not fit the model");
    find_roles(out);
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
  });
}

GenerativeModel writing_model(const ModelFolder& folder) {
  const auto out = std::dynamic_pointer_cast<GenerativeModelImpl>(folder.model);
  FOVEA_CHECK_INPUT(out != nullptr, folder.path.native(), ": a ", folder.model->type(),
                    " model does not write text token by token");
  return out;
}

TextEncoder open_text_encoder(const fs::path& path) {
  return as_input(path, [&] { return TextEncoder::load(path); });
}

void check_text(const TextEncoder& encoder, std::string_view text, const std::string& source) {
  const int64_t positions = encoder.model->max_positions();
  const size_t around = 16;                                                // more special tokens than any template has
  if (!text.empty() && int64_t(text.size() + around) < positions) return;  // tokens take a byte or more
  const size_t tokens = encoder.tokenizer.ids(text, {.pad = false}).size();
  FOVEA_CHECK_INPUT(tokens > 0, source, ": the text is empty; wanted at least one token");
  FOVEA_CHECK_INPUT(int64_t(tokens) <= positions, source, ": the text has ", tokens, " tokens, the model has ",
                    positions, " positions");
}

std::vector<int64_t> prompt_ids(const ModelFolder& folder, std::string_view text, const std::string& source) {
  check_utf8(text, source);
  std::vector<int64_t> ids = folder.tokenizer.ids(text, {.truncate = false, .pad = false});
  const auto writer = std::dynamic_pointer_cast<GenerativeModelImpl>(folder.model);
  const bool encoder = writer && writer->has_encoder();
  if (encoder && !folder.end_ids.empty() && (ids.empty() || ids.back() != folder.end_ids[0]))
    ids.push_back(folder.end_ids[0]);
  if (ids.empty() && folder.tokenizer.bos_id()) ids.push_back(*folder.tokenizer.bos_id());
  FOVEA_CHECK_INPUT(!ids.empty(), source, ": the text is empty; wanted at least one token");
  FOVEA_CHECK_INPUT(int64_t(ids.size()) <= folder.model->max_positions(), source, ": the text has ", ids.size(),
                    " tokens, the model has ", folder.model->max_positions(), " positions");
  return ids;
}

}  // namespace fovea
