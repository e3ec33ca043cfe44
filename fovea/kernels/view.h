// What a kernel, a mask or a score bias sees of a tensor: a pointer, sizes and strides. No LibTorch below this line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fovea/base/check.h"

namespace fovea {

// B batch, H query heads, G key/value heads, T queries, S keys, D query/key width, E value width.
struct AttentionShape {
  int64_t B = 1, H = 1, G = 1, T = 0, S = 0, D = 0, E = 0;
  // Lower-right alignment: query i stands at position i + offset() among the keys.
  int64_t offset() const { return S - T; }
};

enum class ViewType : uint8_t { kBool, kInt64, kFloat };

// Up to four axes, any strides (0 where an axis is broadcast). Floating data arrives as f32; a user rule's definition
// asks for f64.
struct ArrayView {
  const void* data = nullptr;
  ViewType type = ViewType::kFloat;
  int rank = 0;
  int64_t size[4] = {1, 1, 1, 1};
  int64_t stride[4] = {0, 0, 0, 0};

  template <class T>
  const T& at(int64_t i, int64_t j = 0, int64_t k = 0, int64_t l = 0) const {
    return static_cast<const T*>(data)[i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3]];
  }
  int64_t numel() const { return size[0] * size[1] * size[2] * size[3]; }

  // The same data seen as [B|1, H|1, T, S] broadcast to the attention's shape: leading axes are added, axes of size 1
  // get stride 0. Throws when an axis fits neither.
  ArrayView as_scores(const char* what, const AttentionShape& shape) const {
    const int64_t wanted[4] = {shape.B, shape.H, shape.T, shape.S};
    const char* letters[4] = {"B", "H", "T", "S"};
    ArrayView out{data, type, 4, {}, {}};
    for (int axis = 0; axis < 4; ++axis) {
      const int source = axis - (4 - rank);
      const int64_t have = source < 0 ? 1 : size[source];
      FOVEA_CHECK_KIND(ErrorKind::kArgument, have == 1 || have == wanted[axis], what, ": axis ", letters[axis],
                       " has size ", have, ", wanted 1 or ", wanted[axis], " (the scores are [B, H, T, S] = [", shape.B,
                       ", ", shape.H, ", ", shape.T, ", ", shape.S, "])");
      out.size[axis] = wanted[axis];
      out.stride[axis] = have == 1 ? 0 : stride[source];
    }
    return out;
  }
};

// Lengths (or starts) of the sequences of a batch: integers [B], each within 0 … most.
inline void check_lengths(const char* what, const ArrayView& lengths, int64_t batch, int64_t most) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   lengths.type == ViewType::kInt64 && lengths.rank == 1 && lengths.size[0] == batch, what,
                   ": wanted integers [", batch, "], got rank ", lengths.rank, " with ", lengths.numel(), " elements");
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths.at<int64_t>(b);
    FOVEA_CHECK_KIND(ErrorKind::kArgument, 0 <= length && length <= most, what, ": sequence ", b, " has ", length,
                     ", wanted 0 … ", most);
  }
}

}  // namespace fovea
