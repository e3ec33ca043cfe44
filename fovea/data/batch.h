// What a model trains on in one step. Token ids are int64; sequences stand in rows, padded on the right unless `start`
// says otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea {

inline constexpr int64_t kIgnore = -100;  // a label that does not count

struct Batch {
  at::Tensor ids;       // [B, T] input of the only stack, or of the encoder
  at::Tensor lengths;   // [B] real tokens of each row of `ids`; undefined: all T
  at::Tensor start;     // [B] slots of padding before each row's first real token; undefined: none. Encoders only
  at::Tensor type_ids;  // [B, T] segment of each token (a sentence pair's 0 and 1); undefined: 0
  at::Tensor global;  // bool [B, T] tokens that see all and are seen by all; undefined: as the head has it. Longformer
  at::Tensor images;  // [B, channels, Y, X] pixels, normalised; image models only, in place of `ids`
  at::Tensor documents;   // [B, T] which packed text each token belongs to (−1 padding); undefined: one text a row
  at::Tensor positions;   // [B, T] position ids; undefined: 0 … T − 1 (packed texts start anew at 0)
  at::Tensor target_ids;  // [B, U] decoder input (teacher forcing); encoder-decoder only
  at::Tensor target_lengths;  // [B]
  at::Tensor labels;  // [B, T] or [B, U]; labels[b][t] is what the output at t should predict; kIgnore elsewhere;
                      // [B] the class of each row (regression: a number; several classes at once: [B, N] of 0 and 1);
                      // [B, 2] the first and last slot of each answer
  at::Tensor next_sentence;  // [B] 0: a row's second text follows its first, 1: it does not; BERT's pre-training only
  int64_t tokens = 0;        // labels that count
  bool continues = false;    // each row goes on where that of the batch before ended (windows of streams)
};

}  // namespace fovea
