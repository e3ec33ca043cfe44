// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/record.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/kernels/view.h"
#include "fovea/ops/bind.h"
#include "fovea/view/base64.h"

namespace fovea {
namespace {

// f32, little-endian, the last axis fastest.
std::string bytes_of(const at::Tensor& weights) {
  std::vector<at::Tensor> storage;
  const ArrayView view = view_of(weights, storage);
  std::string out;
  out.reserve(size_t(view.numel()) * 4);
  for (int64_t h = 0; h < view.size[0]; ++h)
    for (int64_t q = 0; q < view.size[1]; ++q)
      for (int64_t k = 0; k < view.size[2]; ++k) {
        const auto bits = std::bit_cast<uint32_t>(view.at<float>(h, q, k));
        for (int shift = 0; shift < 32; shift += 8) out += char(bits >> shift);
      }
  return out;
}

// Bytes, the channels of a pixel side by side.
nlohmann::json picture_json(const AttentionRecord::Picture& picture) {
  const at::Tensor pixels = picture.pixels.permute({1, 2, 0});  // [Y, X, channels]
  const auto bytes = pixels.accessor<uint8_t, 3>();
  std::string out;
  out.reserve(size_t(pixels.numel()));
  for (int64_t y = 0; y < bytes.size(0); ++y)
    for (int64_t x = 0; x < bytes.size(1); ++x)
      for (int64_t c = 0; c < bytes.size(2); ++c) out += char(bytes[y][x][c]);
  return {{"shape", pixels.sizes().vec()},
          {"patches", {picture.rows, picture.columns}},
          {"first", picture.first},
          {"data", base64(out)}};
}

}  // namespace

std::vector<std::string> place_names(int64_t rows, int64_t columns) {
  std::vector<std::string> out;
  for (int64_t y = 1; y <= rows; ++y)
    for (int64_t x = 1; x <= columns; ++x) out.push_back(std::to_string(y) + "," + std::to_string(x));
  return out;
}

std::string to_json(const AttentionRecord& record) {
  nlohmann::json out{{"format", "fovea.attention"}, {"version", 1}, {"model", record.model}};
  for (const auto& sequence : record.sequences) {
    out["sequences"].push_back({{"name", sequence.name}, {"tokens", sequence.tokens}});
    if (sequence.picture) out["sequences"].back()["picture"] = picture_json(*sequence.picture);
  }
  for (const auto& map : record.maps) {
    out["maps"].push_back({{"name", map.name},
                           {"queries", map.queries},
                           {"keys", map.keys},
                           {"shape", map.weights.sizes().vec()},
                           {"data", base64(bytes_of(map.weights))}});
    if (map.gates) out["maps"].back()["gates"] = true;
  }
  return dump_json(out);
}

void write_record(const std::filesystem::path& path, const AttentionRecord& record) {
  write_file(path, to_json(record) + '\n');
}

}  // namespace fovea
