// Multi-head attention (Vaswani et al. 2017, section 3.2.2) as a module. Self, cross and cached use are one forward;
// grouped heads (Ainslie et al. 2023) are a number.
//
//   Attention attn({.width = 512, .heads = 8, .kv_heads = 2, .position = "rope", .bias = false});
//   Tensor y = attn->forward(x);                                              // self
//   Tensor c = attn->forward(x, {.memory = encoded, .mask = masks::padding(lengths)});  // cross
//   Tensor s = attn->forward(x_t, {.cache = &cache});                         // one step of decoding
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include <optional>
#include <string>

#include "fovea/attention/cache.h"
#include "fovea/attention/variants/variant.h"
#include "fovea/layers/module.h"
#include "fovea/positions/position.h"

namespace fovea {

struct MultiHeadOptions {
  int64_t width = 0;                // C
  int64_t heads = 0;                // H
  int64_t kv_heads = 0;             // G, divides H; 0: H
  int64_t head_width = 0;           // D; 0: C / H, which must be whole
  int64_t value_width = 0;          // E, of one head; 0: D
  int64_t memory_width = 0;         // channels that keys and values come from; 0: C
  std::string position = "none";    // an encoding of its own; in a stack the stack's is shared instead
  bool bias = true;                 // of query, key and value projections
  std::optional<bool> output_bias;  // unset: as `bias`
  double dropout = 0;               // on the weights, in training only
  double soft_cap = 0;              // c > 0: score -> c · tanh(score / c)
  double scale = 0;                 // 0: 1/√D
  std::string variant = "softmax";
  VariantOptions variants;          // details of `variant`
  PositionOptions positions;        // details of `position`
  std::string scope = "attention";  // the name under which probes see it
};

struct AttendInput {
  Tensor memory;  // [B, S, M]: keys and values come from here (cross-attention); undefined: from x
  // [B, N, C]: states that stand before x and are seen by all of it (Transformer-XL's memory). Not with a cache.
  Tensor past;
  Mask mask;
  Score score;  // applied before the position's own
  // Self: the T new keys are appended, queries see all S. Cross: keys and values are computed once, when it is empty.
  LayerCache* cache = nullptr;
  Positions positions;                     // of x; read only by an encoding of its own; default: after the cache
  const PositionPass* position = nullptr;  // shared by a stack; replaces an encoding of its own
  // Self-attention without a cache: as in VariantTokens.
  Mask local_mask;
  Tensor global;                  // bool [B, T]
  std::optional<double> dropout;  // replaces the options'; in training only
};

class AttentionImpl : public torch::nn::Module {
 public:
  // Throws Error(kConfig) when sizes do not fit each other.
  explicit AttentionImpl(MultiHeadOptions options);
  // x [B, T, C] -> [B, T, C]. Emits "<scope>.weights" [B, H, T, S], before dropout, to probes that want it.
  Tensor forward(const Tensor& x, const AttendInput& in = {}) const;
  // Every size filled in.
  const MultiHeadOptions& options() const { return options_; }
  // From now on `other` computes, with its weights (all layers of a stack may have one).
  void share_variant(const Variant& other);

  torch::nn::Linear query{nullptr};   // C -> H·D
  torch::nn::Linear key{nullptr};     // M -> G·D
  torch::nn::Linear value{nullptr};   // M -> G·E
  torch::nn::Linear output{nullptr};  // H·E -> C
  Position position;                  // null in a stack, and for "none"
  Variant variant;

 private:
  struct Heads {
    Tensor query, key, value;
  };
  void check_input(const Tensor& x, const AttendInput& in) const;
  Heads self_heads(const Tensor& x, const AttendInput& in, const PositionPass* pass) const;
  Heads cross_heads(const Tensor& x, const AttendInput& in) const;
  Tensor attend(const Tensor& x, const Heads& heads, const AttendInput& in, const AttentionOptions& call,
                LayerCache* cache) const;

  MultiHeadOptions options_;
};
FOVEA_MODULE(Attention, MultiHeadOptions);

}  // namespace fovea
