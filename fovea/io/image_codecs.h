// Inside io: one reader per image format, and what they have in common. Their libraries report errors by longjmp, so
// each keeps the functions that call them free of anything with a destructor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace fovea {

// The whole of `bytes` -> uint8 [Y, X, 1 or 3].
at::Tensor decode_png(std::string_view bytes, const std::string& name);
at::Tensor decode_jpeg(std::string_view bytes, const std::string& name);

// Throws for an image of more pixels than any of ours should have, before memory is taken.
void check_pixels(const std::string& name, double width, double height);

}  // namespace fovea
