// `fovea inspect`: what a model folder or a safetensors file holds, and whether configuration, weights and tokenizer
// fit.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/output.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/registry.h"
#include "fovea/ops/fresh.h"
#include "fovea/text/tokenizer.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json describe_weights(const SafetensorsFolder& weights) {
  Json out;
  Json tensors = Json::array();
  std::set<std::string> files, types;
  uint64_t bytes = 0, numbers = 0;
  for (const std::string& name : weights.names()) {
    const TensorInfo& info = weights.info(name);
    uint64_t count = 1;
    for (const int64_t size : info.shape) count *= uint64_t(size);
    const std::string file = weights.file(name).path().filename().native();
    const std::string type(safetensors_dtype(info.dtype));
    tensors.push_back(
        {{"name", name}, {"dtype", type}, {"shape", info.shape}, {"bytes", info.end - info.begin}, {"file", file}});
    bytes += info.end - info.begin;
    numbers += count;
    files.insert(file);
    types.insert(type);
  }
  out["files"] = files;
  out["dtypes"] = types;
  out["numbers"] = numbers;
  out["bytes"] = bytes;
  out["metadata"] = weights.files().empty() ? Metadata() : weights.files().front().metadata();
  out["tensors"] = std::move(tensors);
  return out;
}

// What the folder holds beside its weights goes to `out`. Returns what is wrong: a bad part does not hide the others.
Json describe_model(const fs::path& folder, const SafetensorsFolder& weights, Json& out) {
  Json problems = Json::array();
  Model model;
  try {
    const auto config = read_json(folder / "config.json", "model configuration");
    out["config"] = Json(config);
    const Undrawn file_fills_it;
    model = make_model(config);
    const LoadReport report = load_weights(*model, weights);
    out["model"] = {{"type", model->type()},
                    {"parameters", model->parameter_count()},
                    {"vocab_size", model->vocab_size()},
                    {"positions", model->max_positions()}};
    const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(model);
    if (const auto count = reader ? reader->multiply_adds() : std::nullopt) out["model"]["multiply_adds"] = *count;
    out["missing"] = report.missing;
    out["unexpected"] = report.unexpected;
    out["misshaped"] = report.misshaped;
    if (!report.good()) problems.push_back("the weights do not fit config.json: " + report.text());
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
  const auto has = [&](const char* name) { return path_exists(folder / name); };
  if (model && ImageEncoder::fits(folder)) {
    try {
      ImageProcessor::load(folder);
    } catch (const Error& error) {
      problems.push_back(error.what());
    }
  }
  if (!has("tokenizer.json") && !has("vocab.json") && !has("vocab.txt")) return problems;
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    out["tokenizer"] = {{"vocab_size", tokenizer.vocab_size()}, {"end_id", tokenizer.end_id()}};
    if (tokenizer.has_source()) out["tokenizer"]["source_vocab_size"] = tokenizer.source().vocab_size();
    if (model) check_tokenizer_fits(*model, tokenizer, folder.native());
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
  return problems;
}

std::string list_of(const Json& values) {
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : ", ") + value.get<std::string>();
  return out;
}

void print_model(const Json& facts) {
  if (facts.contains("model")) {
    const Json& model = facts["model"];
    output().line("model      " + model["type"].get<std::string>() + " · " +
                  short_number(model["parameters"].get<double>()) + " parameters · vocabulary " +
                  model["vocab_size"].dump() + " · " + model["positions"].dump() + " positions" +
                  (model.contains("multiply_adds")
                       ? " · " + short_number(model["multiply_adds"].get<double>()) + " multiplications an image"
                       : ""));
  }
  if (facts.contains("tokenizer")) {
    const Json& tokenizer = facts["tokenizer"];
    const bool two = tokenizer.contains("source_vocab_size");
    output().line("tokenizer  " + tokenizer["vocab_size"].dump() + " tokens" +
                  (two ? ", of the sources " + tokenizer["source_vocab_size"].dump() : ""));
  }
  if (facts.contains("config"))
    for (const auto& [key, value] : facts["config"].items()) output().line("config     " + key + " = " + value.dump());
}

void print(const Json& facts) {
  const Json& weights = facts["weights"];
  print_model(facts);
  output().line("weights    " + list_of(weights["files"]) + " · " + std::to_string(weights["tensors"].size()) +
                " tensors · " + short_number(weights["numbers"].get<double>()) + " numbers · " +
                short_number(weights["bytes"].get<double>()) + "B · " + list_of(weights["dtypes"]));
  size_t widest = 0;
  for (const Json& tensor : weights["tensors"])
    widest = std::max(widest, count_code_points(tensor["name"].get_ref<const std::string&>()));
  for (const Json& tensor : weights["tensors"]) {
    const auto& name = tensor["name"].get_ref<const std::string&>();
    output().line("  " + name + std::string(widest - count_code_points(name) + 2, ' ') +
                  tensor["dtype"].get<std::string>() + "  " + tensor["shape"].dump());
  }
  if (!facts.contains("problems")) return;
  for (const Json& problem : facts["problems"]) output().line("problem    " + problem.get<std::string>());
  if (facts["problems"].empty())
    output().line(facts.contains("tokenizer") ? "fits       configuration, weights and tokenizer agree"
                                              : "fits       configuration and weights agree; there is no tokenizer");
}

struct Inspect {
  std::string path;
  bool json = false;

  void declare(CommandLine& line) {
    line.positional("DIR|FILE.safetensors", path, "model folder, or one file of weights");
    line.flag("--json", json, "one JSON object (docs/json.md)");
  }

  int run() {
    FOVEA_CHECK_INPUT(path_exists(path), "\"", path, "\": no such folder or file");
    const bool folder = is_folder(path);
    if (folder) check_model_folder(path);
    const SafetensorsFolder weights(path);
    Json facts;
    facts["path"] = path;
    facts["weights"] = describe_weights(weights);
    if (folder) facts["problems"] = describe_model(path, weights, facts);
    if (json)
      output().line(facts.dump(-1, ' ', false, Json::error_handler_t::replace));
    else
      print(facts);
    return folder && !facts["problems"].empty() ? kExitBadInput : kExitDone;
  }
};

}  // namespace

void register_commands_inspect(CommandsRegistry& registry) {
  registry.add("inspect", command<Inspect>("what a model folder or a safetensors file holds",
                                           "fovea inspect runs/kjv/best\n"
                                           "fovea inspect model.safetensors --json"));
}

}  // namespace fovea
