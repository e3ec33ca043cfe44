// What one forward pass looked at: the weights of every attention layer, and the tokens on their axes. The file format
// (docs/view.md) knows nothing of the page that draws it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fovea {

struct AttentionRecord {
  // What a sequence of patches was cut from.
  struct Picture {
    at::Tensor pixels;              // uint8 [1 or 3, Y, X], Y and X whole multiples of the patches'
    int64_t rows = 0, columns = 0;  // of patches
    int64_t first = 1;              // token of the first of them: 1 behind a class token
  };
  struct Sequence {
    std::string name;                 // "text"; "source", "target"; "picture"
    std::vector<std::string> tokens;  // UTF-8, as the text has them: blanks and line ends are themselves
    std::optional<Picture> picture;
  };
  struct Map {
    std::string name;               // the probe's: "layers.3.attention.weights"
    int64_t queries = 0, keys = 0;  // indices into `sequences`
    at::Tensor weights;             // f32 [H, T, S]
    bool gates = false;             // each is a factor of its own, 0 to 1; else a row's sum to 1
  };
  std::string model;  // a title
  std::vector<Sequence> sequences;
  std::vector<Map> maps;  // in the order in which the model ran them
};

// "1,1", "1,2", …: patches row by row.
std::vector<std::string> place_names(int64_t rows, int64_t columns);

// One line of JSON; the weights bit for bit.
std::string to_json(const AttentionRecord& record);
// The same as a file, replaced in one step.
void write_record(const std::filesystem::path& path, const AttentionRecord& record);

}  // namespace fovea
