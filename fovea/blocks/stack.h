// A stack of equal blocks, the encoder or decoder of a model: positions, masks and caches are handled here once for all
// layers.
//
//   Stack decoder({.layers = 4, .block = {.attention = {.width = 128, .heads = 4}}, .position = "learned",
//                  .positions = {.max_positions = 128}, .causal = true, .final_norm = true});
//   Tensor y = decoder->forward(x);                       // training: all positions at once
//   Tensor s = decoder->forward(x_t, {.state = &state});  // decoding: the tokens after those the state holds
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/blocks/block.h"

namespace fovea {

struct StackOptions {
  int64_t layers = 0;  // L
  BlockOptions block;
  std::string position = "none";     // one encoding for all layers
  PositionOptions positions;         // details of it; sizes left at 0 are the attention's
  bool position_each = false;        // instead, one with weights of its own in each layer
  bool causal = false;               // no token sees a later one
  int64_t window = 0;                // causal only: a token sees the newest `window`, itself included; 0: all
  bool embed_norm = false;           // a norm after the positions are added (BERT, BART)
  double embed_dropout = 0;          // after that
  bool embed_dropout_first = false;  // between the two (BigBird)
  bool final_norm = false;           // a norm after the last block (pre-norm models)
  double final_dropout = 0;          // after that (T5)
};

// One long text in segments (Transformer-XL): the newest inputs of every layer, which the next segment sees before its
// own. They take no gradient.
struct SegmentMemory {
  int64_t length = 0;          // how many are kept
  std::vector<Tensor> layers;  // [B, N, C] each, N ≤ length; empty where a text begins
};

struct StackInput {
  Mask mask;                        // beside `causal` and padding
  Score score;                      // beside the position's
  std::vector<Mask> layer_masks;    // beside `mask`, one for each layer: what tokens see that are not global; or none
  std::vector<Score> layer_scores;  // beside `score`, one for each layer; or none
  Tensor global;                    // bool [B, T]: tokens that see all and are seen by all; variant "longformer" only
  std::optional<double> attention_dropout;  // replaces the options'; in training only
  Tensor start;                             // [B] left padding: first real slot of each row; default: the state's
  Tensor lengths;         // [B] real tokens of each row, from `start` (or slot 0) on; not with a state
  Positions positions;    // default: real tokens are counted, from what the state holds on
  Tensor memory;          // [B, S, M] for cross-attention; default: the state's
  Tensor memory_lengths;  // [B] real rows of the memory; default: the state's
  Mask memory_mask;       // beside them
  DecoderState* state = nullptr;
  SegmentMemory* segments = nullptr;  // read, then moved on; not with a state, and without padding on the left
};

class StackImpl : public torch::nn::Module {
 public:
  explicit StackImpl(StackOptions options);
  // x [B, T, C], embedded tokens -> [B, T, C]; what stands in padding is unspecified, and where much is padding, not
  // computed. With a state, T new tokens are appended to its caches. Probes see
  // "layers.<i>.…" as in Block.
  Tensor forward(const Tensor& x, const StackInput& in = {}) const;
  int64_t max_positions() const { return position->max_positions(); }
  const StackOptions& options() const { return options_; }

  Position position;            // never null
  Norm embed_norm, final_norm;  // empty unless asked for
  std::vector<Block> layers;

 private:
  Tensor embed(const Tensor& x, const Positions& positions) const;
  BlockInput block_input(const Tensor& x, const StackInput& in) const;
  Mask order(int64_t T) const;  // which tokens a token may see for its place alone
  bool may_skip_padding(const Tensor& x, const StackInput& in) const;
  void check_segments(const Tensor& x, const StackInput& in) const;

  StackOptions options_;
};
FOVEA_MODULE(Stack, StackOptions);

}  // namespace fovea
