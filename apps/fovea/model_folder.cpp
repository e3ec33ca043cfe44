// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/model_folder.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/text_lines.h"
#include "fovea/generate/folder_options.h"
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

}  // namespace

ModelFolder open_model_folder(const fs::path& path) {
  const auto begin = std::chrono::steady_clock::now();
  return as_input(path, [&] {
    ModelFolder out{path, load_pretrained_model(path), Tokenizer::load(path), {}, 0};
    check_tokenizer_fits(*out.model, out.tokenizer, path.native());
    out.options = folder_options(path, *out.model, out.tokenizer);
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

ImageEncoder open_image_encoder(const fs::path& path) {
  return as_input(path, [&] { return ImageEncoder::load(path); });
}

void check_text_is_there(std::string_view text, const std::string& source) {
  FOVEA_CHECK_INPUT(!trimmed(text).empty(), source, ": the text is empty; wanted at least one token");
}

TextPair text_pair(const TextLine& line) {
  const size_t tab = line.text.find('\t');
  FOVEA_CHECK_INPUT(tab != std::string::npos, line.source, ": no tab between the two texts of a pair");
  TextPair out{line.text.substr(0, tab), line.text.substr(tab + 1), line.source};
  FOVEA_CHECK_INPUT(!trimmed(out.source).empty() && !trimmed(out.target).empty(), line.source,
                    ": one text of the pair is empty");
  FOVEA_CHECK_INPUT(out.target.find('\t') == std::string::npos, line.source,
                    ": more than two columns; wanted TEXT<TAB>TEXT");
  return out;
}

void check_reads_pairs(const EncoderModelImpl& model, const Tokenizer& tokenizer, const std::string& folder) {
  const auto kinds = tokenizer.encode_pair("a", "a", {.pad = false}).type_ids;
  FOVEA_CHECK_INPUT(kinds.empty() || *std::max_element(kinds.begin(), kinds.end()) < model.segments(), folder,
                    ": --pairs gives a pair of texts; the model reads single ones");
}

void check_text(const TextEncoder& encoder, std::string_view text, const std::string& source) {
  check_text_is_there(text, source);
  const int64_t positions = encoder.model->max_positions();
  const size_t around = 16;                               // more special tokens than any template has
  if (int64_t(text.size() + around) < positions) return;  // tokens take a byte or more
  const size_t tokens = encoder.tokenizer.ids(text, {.pad = false}).size();
  FOVEA_CHECK_INPUT(tokens > 0, source, ": the text is empty; wanted at least one token");
  FOVEA_CHECK_INPUT(int64_t(tokens) <= positions, source, ": the text has ", tokens, " tokens, the model has ",
                    positions, " positions");
}

std::vector<int64_t> prompt_ids(const ModelFolder& folder, std::string_view text, const std::string& source) {
  check_utf8(text, source);
  const auto writer = std::dynamic_pointer_cast<GenerativeModelImpl>(folder.model);
  if (!writer || writer->has_encoder()) check_text_is_there(text, source);
  std::vector<int64_t> ids = writer && writer->has_encoder()
                                 ? source_ids(folder.tokenizer, folder.options, text)
                                 : folder.tokenizer.ids(text, {.truncate = writer == nullptr, .pad = false});
  if (ids.empty() && folder.tokenizer.bos_id()) ids.push_back(*folder.tokenizer.bos_id());
  FOVEA_CHECK_INPUT(!ids.empty(), source, ": the text is empty; wanted at least one token");
  FOVEA_CHECK_INPUT(int64_t(ids.size()) <= folder.model->max_positions(), source, ": the text has ", ids.size(),
                    " tokens, the model has ", folder.model->max_positions(), " positions");
  return ids;
}

GenerateOptions layered(const GenerateOptions& folder, const GenerateOptions& typed, const CommandLine& line) {
  const auto given = [&](std::string key) {
    std::replace(key.begin(), key.end(), '_', '-');
    return line.given("--" + key);
  };
  nlohmann::json all, over = nlohmann::json::object();
  write_to_json(typed, all);
  for (const auto& [key, value] : all.items())
    if (given(key)) over[key] = value;
  GenerateOptions out = folder;
  fill_from_json(out, over, "command line");
  if (given("temperature") && !given("beams") && out.temperature > 0) out.beams = out.results = 1;
  if (given("beams") && !given("temperature") && out.beams > 1) out.temperature = 0;
  if (given("beams") && !given("results")) out.results = std::min(out.results, out.beams);
  // An option that would change nothing is a mistake somewhere.
  for (const char* key : {"top-k", "top-p", "min-p"})
    FOVEA_CHECK_CONFIG(!given(key) || out.temperature > 0, "--", key,
                       " is for texts that are drawn; give a --temperature above 0, too");
  for (const char* key : {"length-penalty", "beam-stop"})
    FOVEA_CHECK_CONFIG(!given(key) || out.beams > 1, "--", key, " is for beam search; give --beams above 1, too");
  return out;
}

}  // namespace fovea
