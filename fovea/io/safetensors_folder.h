// The weights of a model folder: `model.safetensors`, or shards with `model.safetensors.index.json`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fovea/io/safetensors.h"

namespace fovea {

class SafetensorsFolder {
 public:
  // A folder, or directly a .safetensors or .index.json file. Error(kInput) for a missing or bad shard, a tensor that
  // two shards hold, a tensor that index and shard disagree about, a shard named by a path that leaves the folder, and
  // a folder with both an unsharded and a sharded set.
  explicit SafetensorsFolder(const std::filesystem::path& folder_or_file);

  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool contains(const std::string& name) const { return file_of_.count(name) > 0; }
  const TensorInfo& info(const std::string& name) const { return file(name).info(name); }
  at::Tensor tensor(const std::string& name) const { return file(name).tensor(name); }
  const SafetensorsFile& file(
      const std::string& name) const;  // that holds the tensor; Error(kInput) for an unknown name
  const std::vector<SafetensorsFile>& files() const { return files_; }
  const std::filesystem::path& path() const { return path_; }  // as given

 private:
  void open_index(const std::filesystem::path& index);
  void take_names(size_t file);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // name -> index into files_
  std::vector<std::string> names_;
};

// Writes `folder`/model.safetensors, or, above `max_shard_bytes` of tensor data (0: no limit), shards
// model-00001-of-00003.safetensors filled in the given order, and their index. All files are on disk before the first
// is put in place, so a full disk changes nothing; weights of the other layout that stood there are then removed. For a
// folder that must appear whole even in a crash, write into a FolderCommit.
void write_safetensors_folder(const std::filesystem::path& folder, const NamedTensors& tensors,
                              uint64_t max_shard_bytes = 0, const Metadata& metadata = {{"format", "pt"}});

}  // namespace fovea
