// What changes the arithmetic of attention, not its mask: softmax, and others that may have weights of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

#include "fovea/attention/cache.h"
#include "fovea/base/config.h"
#include "fovea/ops/attention.h"

namespace fovea {

// Sizes left at 0 are taken from the attention that holds the variant.
struct VariantOptions {
  int64_t heads = 0, kv_heads = 0;          // H, G
  int64_t head_width = 0, value_width = 0;  // D, E
  int64_t width = 0;                        // C, of the tokens that queries come from
  bool bias = true;                         // of the attention's projections, and so of a variant's own
  int64_t max_positions = 0;                // longest sequence; 0: no limit (linformer needs one)
  int64_t projected = 0;                    // linformer: rows that a sequence is projected to
  std::string sharing = "none";             // linformer: "none", "heads", "key_value", "layers"
  void visit(FieldVisitor& visitor);
};

// What some arithmetics read beside the heads.
struct VariantTokens {
  Tensor x;       // [B, T, C], the tokens before projection
  Tensor global;  // bool [B, T], those that see all and are seen by all; undefined: none
  Mask local;     // what the other tokens see, beside the mask of all
};

class VariantImpl : public torch::nn::Module {
 public:
  // query [B, H, T, D], key [B, G, S, D], value [B, G, S, E] -> [B, H, T, E]. A mask or bias that the arithmetic cannot
  // honour is an error, never ignored.
  virtual Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value,
                        const AttentionOptions& options) const = 0;
  // The same with the weights [B, H, T, S] that it amounts to.
  virtual AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                          const AttentionOptions& options) const = 0;
  // Tokens among themselves, some of which may be global. Unless a variant knows better: the same under `local`, and an
  // error where some are.
  virtual Tensor attend_tokens(const VariantTokens& tokens, const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionOptions& options) const;
  virtual AttentionResult attend_tokens_detailed(const VariantTokens& tokens, const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const AttentionOptions& options) const;
  // The same for T tokens (T = S) that follow those of `cache`, which is moved on. By default the cache keeps keys and
  // values; a recurrent arithmetic keeps a state of fixed size.
  virtual Tensor attend_cached(const Tensor& query, const Tensor& key, const Tensor& value, LayerCache& cache,
                               const AttentionOptions& options) const;
  virtual AttentionResult attend_cached_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 LayerCache& cache, const AttentionOptions& options) const;
  // All layers of a stack have this one's weights.
  virtual bool shared_by_layers() const { return false; }
};

using Variant = std::shared_ptr<VariantImpl>;

// By registered name: "softmax", "linear", "linformer", …
Variant make_variant(const std::string& name, const VariantOptions& options);

}  // namespace fovea
