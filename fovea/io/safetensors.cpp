// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"
#include "fovea/io/json.h"

static_assert(std::endian::native == std::endian::little, "the format is little-endian and so are its views");

namespace fovea {
namespace {

using nlohmann::json;

constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own reader
constexpr size_t kLengthBytes = 8;
constexpr const char* kMetadataKey = "__metadata__";

struct Dtype {
  std::string_view name;
  at::ScalarType type;
  uint64_t bytes;
};
// In the order in which the format's own writer lays tensors out.
constexpr Dtype kDtypes[] = {
    {"I64", at::kLong, 8},      {"F64", at::kDouble, 8}, {"F32", at::kFloat, 4}, {"I32", at::kInt, 4},
    {"BF16", at::kBFloat16, 2}, {"F16", at::kHalf, 2},   {"I16", at::kShort, 2}, {"I8", at::kChar, 1},
    {"U8", at::kByte, 1},       {"BOOL", at::kBool, 1},
};

const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}
const Dtype* find_dtype(at::ScalarType type) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.type == type) return &dtype;
  return nullptr;
}

// 91204 -> "91,204"
std::string grouped(uint64_t value) {
  std::string out = std::to_string(value);
  for (size_t i = out.size(); i > 3;) out.insert(i -= 3, 1, ',');
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t size : shape) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "[" + out + "]";
}

// Checks a header against its file. All throw Error(kInput) with file, tensor, fact.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file), name_(file.path().native()) {}

  json read(size_t& data_start) const {
    const std::string_view bytes = file_.bytes();
    FOVEA_CHECK_INPUT(bytes.size() >= kLengthBytes, name_, ": ", bytes.size(),
                      " bytes are too few for a safetensors file", foreign_format());
    uint64_t length;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    FOVEA_CHECK_INPUT(length <= kLongestHeader, name_, ": claims a header of ", grouped(length),
                      " bytes, more than the format allows; not a safetensors file", foreign_format());
    FOVEA_CHECK_INPUT(length <= bytes.size() - kLengthBytes, name_, ": claims a header of ", grouped(length),
                      " bytes but the file ends at ", grouped(bytes.size()), "; the download is cut short");
    const std::string_view text = bytes.substr(kLengthBytes, length);
    FOVEA_CHECK_INPUT(text.starts_with('{'), name_, ": the header does not begin with '{'; not a safetensors file");
    data_start = kLengthBytes + length;
    json header = parse_json(text, name_ + " (header)");
    FOVEA_CHECK_INPUT(header.is_object(), name_, ": the header is not an object");
    return header;
  }

  Metadata metadata(const json& value) const {
    Metadata out;
    FOVEA_CHECK_INPUT(value.is_object(), name_, ": __metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      FOVEA_CHECK_INPUT(text.is_string(), name_, ": __metadata__ \"", key, "\" is not a string");
      out[key] = text.get<std::string>();
    }
    return out;
  }

  TensorInfo tensor(const std::string& tensor, const json& entry) const {
    const std::string where = name_ + ": tensor \"" + tensor + "\"";
    FOVEA_CHECK_INPUT(
        entry.is_object() && entry.contains("dtype") && entry.contains("shape") && entry.contains("data_offsets"),
        where, " lacks one of dtype, shape, data_offsets");
    TensorInfo info;
    const Dtype& dtype = read_dtype(where, entry["dtype"]);
    info.dtype = dtype.type;
    const uint64_t bytes = read_shape(where, entry["shape"], dtype.bytes, info.shape);
    const json& offsets = entry["data_offsets"];
    FOVEA_CHECK_INPUT(
        offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned(),
        where, ": data_offsets must be two non-negative integers, got ", dump_json(offsets).substr(0, 60));
    info.begin = offsets[0].get<uint64_t>();
    info.end = offsets[1].get<uint64_t>();
    FOVEA_CHECK_INPUT(info.begin <= info.end, where, ": data_offsets end before they begin (", grouped(info.begin),
                      "..", grouped(info.end), ")");
    FOVEA_CHECK_INPUT(info.end - info.begin == bytes, where, ": shape ", shape_text(info.shape), " of ", dtype.name,
                      " needs ", grouped(bytes), " bytes, its data_offsets give ", grouped(info.end - info.begin));
    return info;
  }

  // Ranges must tile the data: inside the file, no overlap, no hole, nothing left over.
  void check_ranges(const std::map<std::string, TensorInfo>& infos, size_t data_start) const {
    std::vector<std::pair<const std::string*, const TensorInfo*>> order;
    for (const auto& [name, info] : infos) order.emplace_back(&name, &info);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
    });
    const uint64_t size = file_.size() - data_start;
    uint64_t covered = 0;
    const std::string* previous = nullptr;
    for (const auto& [name, info] : order) {
      const std::string where = name_ + ": tensor \"" + *name + "\"";
      FOVEA_CHECK_INPUT(info->end <= size, where, " claims bytes ", in_file(info->begin, data_start), "..",
                        in_file(info->end, data_start), " but the file ends at ", grouped(file_.size()),
                        "; the download is cut short");
      FOVEA_CHECK_INPUT(info->begin >= covered, where, " overlaps tensor \"", previous ? *previous : "", "\" (bytes ",
                        in_file(info->begin, data_start), "..", in_file(covered, data_start), ")");
      FOVEA_CHECK_INPUT(info->begin == covered, name_, ": bytes ", in_file(covered, data_start), "..",
                        in_file(info->begin, data_start), " belong to no tensor (a hole before \"", *name, "\")");
      covered = info->end;
      previous = name;
    }
    FOVEA_CHECK_INPUT(covered == size, name_, ": the last ", grouped(size - covered), " bytes belong to no tensor");
  }

 private:
  static const Dtype& read_dtype(const std::string& where, const json& value) {
    FOVEA_CHECK_INPUT(value.is_string(), where, ": dtype is not a string");
    const Dtype* dtype = find_dtype(value.get_ref<const std::string&>());
    FOVEA_CHECK_INPUT(dtype != nullptr, where, " has dtype ", dump_json(value).substr(0, 40),
                      "; fovea reads F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
    return *dtype;
  }

  // Fills `shape` and returns its size in bytes.
  static uint64_t read_shape(const std::string& where, const json& value, uint64_t element_bytes,
                             std::vector<int64_t>& shape) {
    FOVEA_CHECK_INPUT(value.is_array() && value.size() <= 64, where, ": shape must be a list of at most 64 integers");
    uint64_t bytes = element_bytes, extent = element_bytes;
    for (const json& element : value) {
      FOVEA_CHECK_INPUT(element.is_number_unsigned(), where, ": shape must hold non-negative integers, got ",
                        dump_json(value).substr(0, 60));
      const uint64_t size = element.get<uint64_t>();
      // `extent` ignores zeros: the strides of an empty tensor must not overflow either.
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      FOVEA_CHECK_INPUT(size <= kMost / extent, where, ": the size of shape ", dump_json(value).substr(0, 60),
                        " overflows 64 bits");
      extent *= std::max<uint64_t>(size, 1);
      bytes *= size;
      shape.push_back(static_cast<int64_t>(size));
    }
    return bytes;
  }

  // A position in the file; offsets near 2^64 stay where they are.
  static std::string in_file(uint64_t offset, size_t data_start) {
    const uint64_t sum = offset + data_start;
    return grouped(sum < offset ? offset : sum);
  }

  const char* foreign_format() const {
    const std::string_view bytes = file_.bytes();
    if (bytes.starts_with("version ")) return " (it is a Git LFS pointer: fetch the file itself)";
    if (bytes.starts_with("PK")) return " (it is a zip archive, perhaps a PyTorch .bin or .pt)";
    if (bytes.starts_with("<")) return " (it looks like a web page)";
    return "";
  }

  const MappedFile& file_;
  std::string name_;
};

struct Entry {
  const std::string* name;
  const at::Tensor* tensor;
  const Dtype* dtype;
};

std::vector<Entry> order_for_writing(const std::string& path, const NamedTensors& tensors) {
  std::vector<Entry> out;
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    const std::string where = "write_safetensors: " + path + ": tensor \"" + name + "\"";
    const auto check = [&](bool condition, const std::string& fact) {
      if (!condition) throw Error(ErrorKind::kArgument, where + fact);
    };
    check(seen.insert(name).second, " is given twice");
    check(name != kMetadataKey, " has the name that the format keeps for its metadata");
    check(find_invalid_utf8(name) == std::string_view::npos, " has a name that is not UTF-8");
    check(tensor.defined() && tensor.layout() == at::kStrided, " is undefined or not dense");
    const Dtype* dtype = find_dtype(tensor.scalar_type());
    check(dtype != nullptr, detail::concat(" has type ", tensor.scalar_type(), ", which the format or fovea lacks"));
    out.push_back({&name, &tensor, dtype});
  }
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) {
    return a.dtype != b.dtype ? a.dtype < b.dtype : *a.name < *b.name;  // both point into kDtypes
  });
  return out;
}

std::string build_header(const std::vector<Entry>& entries, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor, dtype] : entries) {
    const uint64_t end = offset + static_cast<uint64_t>(tensor->numel()) * dtype->bytes;
    header.push_back({*name,
                      {{"dtype", dtype->name},
                       {"shape", std::vector<int64_t>(tensor->sizes().begin(), tensor->sizes().end())},
                       {"data_offsets", {offset, end}}}});
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

}  // namespace

std::string_view safetensors_dtype(at::ScalarType type) {
  const Dtype* dtype = find_dtype(type);
  return dtype == nullptr ? "" : dtype->name;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : map_(std::make_shared<MappedFile>(path, "safetensors file")) {
  const HeaderReader reader(*map_);
  const json header = reader.read(data_start_);
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = reader.metadata(entry);
    } else {
      infos_.emplace(name, reader.tensor(name, entry));
      names_.push_back(name);
    }
  }
  reader.check_ranges(infos_, data_start_);
}

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = infos_.find(name);
  if (found != infos_.end()) return found->second;
  const std::string near = nearest(name, names_);
  throw Error(ErrorKind::kInput, detail::concat(path().native(), ": no tensor \"", name, "\"",
                                                near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const TensorInfo& info = this->info(name);
  const auto options = at::TensorOptions().dtype(info.dtype);
  if (info.begin == info.end) return at::empty(info.shape, options);
  char* data = map_->data() + data_start_ + info.begin;
  const size_t bytes = info.end - info.begin;
  if (info.dtype == at::kBool) {
    const bool valid = std::all_of(data, data + bytes, [](char byte) { return byte == 0 || byte == 1; });
    FOVEA_CHECK_INPUT(valid, path().native(), ": tensor \"", name, "\" of BOOL holds a byte that is neither 0 nor 1");
  }
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(info.dtype) != 0) {
    at::Tensor copy = at::empty(info.shape, options);
    std::memcpy(copy.mutable_data_ptr(), data, bytes);
    return copy;
  }
  return at::from_blob(
      data, info.shape, [map = map_](void*) {}, options);
}

FileCommit prepare_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                               const Metadata& metadata) {
  const auto entries = order_for_writing(path.native(), tensors);
  FileCommit file(path);
  file.write(build_header(entries, metadata));
  for (const Entry& entry : entries) {
    const at::Tensor dense = entry.tensor->detach().cpu().resolve_neg().contiguous();
    if (dense.numel() > 0) file.write({static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
  }
  file.sync();
  return file;
}

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  prepare_safetensors(path, tensors, metadata).commit();
}

}  // namespace fovea
