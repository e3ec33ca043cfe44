// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/safetensors_folder.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/io/json.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void fail_no_weights(const fs::path& folder) {
  std::error_code ignored;
  std::string help;
  if (!fs::exists(folder, ignored)) help = " (there is no such folder)";
  if (fs::exists(folder / "pytorch_model.bin", ignored))
    help = "; pytorch_model.bin is not read: save the model as safetensors (transformers' save_pretrained does)";
  throw Error(ErrorKind::kInput, detail::concat(folder.native(), ": holds neither ", kSingle, " nor ", kIndex, help));
}

// tensor -> shard, with every value checked.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const json root = read_json(index, "index of shards");
  FOVEA_CHECK_INPUT(root.is_object() && root.contains("weight_map") && root["weight_map"].is_object(), index.native(),
                    ": has no object \"weight_map\"");
  std::map<std::string, std::string> out;
  for (const auto& [name, shard] : root["weight_map"].items()) {
    FOVEA_CHECK_INPUT(shard.is_string(), index.native(), ": the shard of tensor \"", name, "\" is not a string");
    out[name] = shard.get<std::string>();
    const fs::path file = out[name];
    FOVEA_CHECK_INPUT(!file.empty() && file == file.filename() && file != "." && file != "..", index.native(),
                      ": the shard \"", out[name], "\" of tensor \"", name, "\" is not a plain file name");
  }
  return out;
}

std::string shard_name(size_t shard, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
  return name;
}

std::vector<NamedTensors> split_into_shards(const NamedTensors& tensors, uint64_t max_bytes) {
  std::vector<NamedTensors> shards(1);
  uint64_t filled = 0;
  for (const auto& entry : tensors) {
    const uint64_t bytes = entry.second.defined() ? entry.second.nbytes() : 0;
    if (max_bytes > 0 && filled + bytes > max_bytes && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(entry);
    filled += bytes;
  }
  return shards;
}

// A folder written before in the other layout, or with more shards, must not look like a second set of weights.
void remove_other_weights(const fs::path& folder, const std::set<std::string>& written) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().native();
    size_t shard = 0, count = 0;
    const bool is_shard = std::sscanf(name.c_str(), "model-%zu-of-%zu.safetensors", &shard, &count) == 2 && shard > 0 &&
                          name == shard_name(shard - 1, count);
    if ((is_shard || name == kSingle || name == kIndex) && written.count(name) == 0) stale.push_back(entry.path());
  }
  for (const auto& path : stale) fs::remove(path, ignored);
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& folder_or_file) : path_(folder_or_file) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path_, ignored);
  const fs::path index = is_folder ? path_ / kIndex : path_;
  const fs::path single = is_folder ? path_ / kSingle : path_;
  if (is_folder ? fs::exists(index, ignored) : index.extension() == ".json") {
    open_index(index);
    const bool single_is_apart =
        is_folder && fs::exists(single, ignored) &&
        std::none_of(files_.begin(), files_.end(), [&](const auto& file) { return file.path() == single; });
    FOVEA_CHECK_INPUT(!single_is_apart, path_.native(), ": holds both ", kSingle, " and ", kIndex,
                      " with other shards; remove the set that is out of date");
  } else {
    if (is_folder ? !fs::exists(single, ignored) : !path_.has_extension() && !fs::exists(path_, ignored))
      fail_no_weights(path_);
    files_.emplace_back(single);
    take_names(0);
  }
  for (const auto& [name, file] : file_of_) names_.push_back(name);
}

void SafetensorsFolder::open_index(const fs::path& index) {
  const auto weight_map = read_weight_map(index);
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, shard] : weight_map) shards[shard].push_back(name);
  for (const auto& [shard, names] : shards) {
    const fs::path path = index.parent_path() / shard;
    std::error_code ignored;
    FOVEA_CHECK_INPUT(fs::exists(path, ignored), path.native(), ": this shard is missing; ", index.filename().native(),
                      " expects ", names.size(), " tensor(s) in it, \"", names.front(), "\" first");
    files_.emplace_back(path);
    take_names(files_.size() - 1);
    for (const auto& name : names)
      FOVEA_CHECK_INPUT(files_.back().contains(name), path.native(), ": lacks tensor \"", name, "\", which ",
                        index.filename().native(), " expects in it");
  }
  for (const auto& [name, file] : file_of_)
    FOVEA_CHECK_INPUT(weight_map.count(name) > 0, files_[file].path().native(), ": holds tensor \"", name, "\", which ",
                      index.filename().native(), " does not name");
}

void SafetensorsFolder::take_names(size_t file) {
  for (const auto& name : files_[file].names()) {
    const auto [place, added] = file_of_.emplace(name, file);
    FOVEA_CHECK_INPUT(added, files_[file].path().native(), ": tensor \"", name, "\" is given twice; ",
                      files_[place->second].path().native(), " holds it too");
  }
}

const SafetensorsFile& SafetensorsFolder::file(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return files_[found->second];
  const std::string near = nearest(name, names_);
  throw Error(ErrorKind::kInput, detail::concat(path_.native(), ": no tensor \"", name, "\"",
                                                near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

void write_safetensors_folder(const fs::path& folder, const NamedTensors& tensors, uint64_t max_shard_bytes,
                              const Metadata& metadata) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors)
    FOVEA_CHECK(seen.insert(name).second, folder.native(), ": tensor \"", name, "\" is given twice");
  const auto shards = split_into_shards(tensors, max_shard_bytes);
  json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  uint64_t total = 0;
  std::vector<FileCommit> files;
  std::set<std::string> written;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? kSingle : shard_name(i, shards.size());
    files.push_back(prepare_safetensors(folder / name, shards[i], metadata));
    written.insert(name);
    for (const auto& [tensor, value] : shards[i]) index["weight_map"][tensor] = name, total += value.nbytes();
  }
  if (shards.size() > 1) {
    index["metadata"]["total_size"] = total;
    files.emplace_back(folder / kIndex).write(dump_json(index, 2) + "\n");
    files.back().sync();
    written.insert(kIndex);
  }
  for (auto& file : files) file.commit();
  remove_other_weights(folder, written);
}

}  // namespace fovea
