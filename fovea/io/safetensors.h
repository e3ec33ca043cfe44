// Reads and writes one safetensors file. It knows bytes, types and shapes, no model; folders of shards are
// safetensors_folder.h.
//
// Layout: 8 bytes header length N (little-endian), N bytes JSON {"name": {"dtype", "shape", "data_offsets": [begin,
// end]},
// "__metadata__": {text: text}}, then the data; offsets count from the start of the data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/io/files.h"

namespace fovea {

struct TensorInfo {
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;  // bytes from the start of the data
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

// The format's name of a type ("BF16"), or "" where the file format or fovea has none.
std::string_view safetensors_dtype(at::ScalarType dtype);

// A file whose header has been checked as a whole: length, JSON, types, shape × size against the byte range, ranges
// against the file, overlaps, holes. A bad file is Error(kInput) naming file, tensor and fact; nothing outside the file
// is ever read. Types: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; another one is an error.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return map_->path(); }
  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool contains(const std::string& name) const { return infos_.count(name) > 0; }
  const TensorInfo& info(const std::string& name) const;  // Error(kInput) for an unknown name
  const Metadata& metadata() const { return metadata_; }

  // A view of the mapped file: no copy, pages are read when used, and the map lives as long as any view of it. Writing
  // into the tensor changes this process's memory only. Data that is not aligned to its type is copied. Error(kInput)
  // for a BOOL that is neither 0 nor 1.
  at::Tensor tensor(const std::string& name) const;

 private:
  std::shared_ptr<MappedFile> map_;
  size_t data_start_ = 0;
  std::map<std::string, TensorInfo> infos_;
  std::vector<std::string> names_;
  Metadata metadata_;
};

// Writes a file in one step (FileCommit), one tensor at a time: no second copy of everything. Tensors are ordered as
// the format's own writer does (wider types first, then by name), the header padded with blanks to 8 bytes. Any strides
// and devices; tensors that share storage are written once each. Error(kArgument) for a name given twice,
// "__metadata__", a type the format lacks. `transformers` wants the metadata {"format": "pt"}.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const Metadata& metadata = {{"format", "pt"}});

// The same, written and synced but not yet in place: for several files that shall appear together.
FileCommit prepare_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                               const Metadata& metadata);

}  // namespace fovea
