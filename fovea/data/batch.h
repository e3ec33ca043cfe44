// What a model trains on in one step. Token ids are int64; sequences stand in rows, padded on the right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea {

inline constexpr int64_t kIgnore = -100;  // a label that does not count

struct Batch {
  at::Tensor ids;         // [B, T] input of the only stack, or of the encoder
  at::Tensor lengths;     // [B] real tokens of each row of `ids`; undefined: all T
  at::Tensor type_ids;    // [B, T] segment of each token (a sentence pair's 0 and 1); undefined: 0
  at::Tensor images;      // [B, 3, Y, X] pixels, normalised; image models only, in place of `ids`
  at::Tensor documents;   // [B, T] which packed text each token belongs to (−1 padding); undefined: one text a row
  at::Tensor positions;   // [B, T] position ids; undefined: 0 … T − 1 (packed texts start anew at 0)
  at::Tensor target_ids;  // [B, U] decoder input (teacher forcing); encoder-decoder only
  at::Tensor target_lengths;  // [B]
  at::Tensor labels;   // [B, T] or [B, U]; labels[b][t] is what the output at t should predict; kIgnore elsewhere;
                       // [B] the class of each row for a model that classifies rows
  int64_t tokens = 0;  // labels that count
};

}  // namespace fovea
