// Key/value cache: what decoding keeps, so that a step computes only its newest tokens. A recurrent attention keeps a
// state of fixed size in its place.
//
// Caches are for inference: what goes in is detached, and no gradient flows to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace fovea {

// Keys and values of one attention layer. Storage [B, G, capacity, D] grows geometrically; views of it are handed out
// and keep their content, whatever happens to the cache afterwards. A copy shares its content with the original until
// one of them appends something else (a prompt may be computed once and continued many times, also by several threads);
// a view or a copy that is alive when a cropped cache appends makes that append copy.
class LayerCache {
 public:
  // Appends [B, G, T, D] and [B, G, T, E]; returns all keys and values so far, [B, G, S, D] and [B, G, S, E], as views.
  // Throws Error(kArgument) when batch, heads, widths or types are not those of the content.
  std::pair<at::Tensor, at::Tensor> append(const at::Tensor& key, const at::Tensor& value);
  // Fixed content, [B, G, S, D] and [B, G, S, E] (cross-attention: computed once per source).
  void set(at::Tensor key, at::Tensor value);
  bool empty() const { return length_ == 0; }
  int64_t length() const { return length_; }
  // Views of what is held, [B, G, S, D] and [B, G, S, E]; undefined before the first append.
  at::Tensor key() const;
  at::Tensor value() const;
  // Keeps the first `length` keys. A state can only be kept whole or given up (0): Error(kArgument).
  void crop(int64_t length);
  // Keeps the newest `count` keys, or all where there are fewer.
  void keep_newest(int64_t count);
  // A recurrent attention's: what all `length` tokens so far left, [B, …]. Replaces the one before.
  void set_state(at::Tensor state, int64_t length);
  const at::Tensor& state() const { return state_; }
  // Row i of the new batch is row rows[i] of the old one (beams); rows: int64 [B'].
  void reorder(const at::Tensor& rows);

 private:
  struct Slots;
  void make_room(const at::Tensor& key, const at::Tensor& value);

  std::shared_ptr<Slots> slots_;
  int64_t begin_ = 0;  // the slot of the oldest key
  int64_t length_ = 0;
  at::Tensor state_;
};

// Everything one generation keeps: a cache per layer and, for encoder-decoder models, the encoded source.
struct DecoderState {
  std::vector<LayerCache> self;
  std::vector<LayerCache> cross;
  at::Tensor start;           // [B] first real slot of each row (left padding); undefined: 0
  at::Tensor memory;          // [B, S, C]
  at::Tensor memory_lengths;  // [B]

  int64_t length() const { return self.empty() ? 0 : self.front().length(); }
  // Keeps the first `length` target tokens.
  void crop(int64_t length);
  void reorder(const at::Tensor& rows);
};

}  // namespace fovea
