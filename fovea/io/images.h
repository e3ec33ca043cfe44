// Pixels: PNG and JPEG files as tensors, IDX files (MNIST's format), and PNG written.
//
// Every size is checked before memory is taken; a file that is cut, damaged, too large or of another kind is
// Error(kInput) naming it and what is wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea {

// Pixels of a file whose kind its first bytes tell: uint8 [channels, Y, X], row 0 on top. `channels` is 1 (grey) or 3
// (RGB), converted where the file has the other (grey = 0.299 R + 0.587 G + 0.114 B), or 0: as the file has it.
// Transparency is dropped, 16 bits a channel become 8; a camera's note on how it was held is not followed. CMYK is an
// error.
at::Tensor read_image(const std::filesystem::path& path, int64_t channels = 3);

// The same from memory; `name` is used in errors.
at::Tensor decode_image(std::string_view bytes, const std::string& name, int64_t channels = 3);

// Writes uint8 [1 or 3, Y, X] as PNG, in one step (FileCommit).
void write_png(const std::filesystem::path& path, const at::Tensor& image);

// An IDX file of bytes (magic 0, 0, 8, number of axes; sizes; data), uint8 of its shape: a view of the mapped file.
at::Tensor read_idx(const std::filesystem::path& path);

}  // namespace fovea
