// The attention calls that are measured, as people make them. The conformance test runs the same list, smaller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "fovea/masks/all.h"
#include "fovea/ops/attention.h"
#include "fovea/scores/all.h"

namespace fovea::bench {

struct AttentionCase {
  std::string name;
  AttentionShape shape;
  bool backward = false;
  Mask (*mask)(const AttentionShape&) = nullptr;
  Score (*score)(const AttentionShape&) = nullptr;
  double dropout = 0;
  bool is_causal = false;     // PyTorch has a word for this mask
  double query_factor = 1;    // peaked scores
  bool learned = false;       // the score's tensors want a gradient
  bool side_by_side = false;  // decoding: all heads of a key lie together, not head by head as in a cache
};

// [B, H, T, D] views of [B, T, H, D] storage.
inline Tensor random_heads(int64_t b, int64_t heads, int64_t rows, int64_t width, at::ScalarType type) {
  return at::randn({b, rows, heads, width}).to(type).transpose(1, 2);
}

inline Tensor lengths(int64_t batch, int64_t most, double least_share) {
  return at::linspace(least_share * double(most), double(most), batch, at::kDouble)
      .to(at::kLong)
      .clamp(std::min<int64_t>(1, most), most);
}

// Blocks of 64: neighbours, two global blocks, three random ones a row (Zaheer et al. 2020).
inline Mask bigbird(const AttentionShape& s) {
  const int64_t n = (s.S + 63) / 64, rows = (s.T + 63) / 64;
  auto visible = at::zeros({rows, n}, at::kBool);
  auto at = visible.accessor<bool, 2>();
  uint64_t state = 88172645463325252u;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) at[r][c] = std::abs(r - c) <= 1 || c == 0 || c == n - 1 || r == 0 || r == rows - 1;
    for (int i = 0; i < 3; ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      at[r][int64_t(state % uint64_t(n))] = true;
    }
  }
  return masks::blocks(64, visible);
}

inline Mask causal(const AttentionShape&) { return masks::causal(); }
inline Mask padding(const AttentionShape& s) { return masks::padding(lengths(s.B, s.S, 0.2)); }
inline Mask window_global(const AttentionShape& s) {
  auto global = at::zeros({s.S}, at::kBool);
  if (s.S > 0) global[0] = true;
  return masks::window_global(256, global);
}
inline Mask documents(const AttentionShape& s) {
  return masks::document(at::arange(s.S).mul(16).div(std::max<int64_t>(1, s.S), "floor")) & masks::causal();
}
// Each position sees its ancestors in a binary tree.
inline Mask tree(const AttentionShape&) {
  return masks::rule([](int64_t, int64_t, int64_t q, int64_t k) { return k <= q && (k == 0 || ((q - k) & 3) != 3); });
}
inline Score t5(const AttentionShape& s) { return scores::bucket_table(at::randn({32, s.H}), true); }
inline Score alibi(const AttentionShape& s) {
  return scores::slopes(at::exp2(-8.0 * at::arange(1, s.H + 1, at::kFloat) / s.H));
}
inline Score head_bias(const AttentionShape& s) { return scores::dense(at::randn({s.H, s.T, s.S})); }
inline Score distance(const AttentionShape& s) {
  return scores::add({{"strength", at::full({s.H}, 0.01)}},
                     [](auto p, int64_t, int64_t h, int64_t q, int64_t k) { return p[0][h] * float(k - q); });
}

inline const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> cases{
      {"bert-384-padded", {16, 12, 12, 384, 384, 64, 64}, false, padding},
      {"bert-512", {8, 12, 12, 512, 512, 64, 64}},
      {"bert-512-train", {8, 12, 12, 512, 512, 64, 64}, true},
      {"bert-512-dropout", {8, 12, 12, 512, 512, 64, 64}, true, padding, nullptr, 0.1},
      {"gpt2-1024", {4, 12, 12, 1024, 1024, 64, 64}, false, causal, nullptr, 0, true},
      {"gpt2-1024-train", {4, 12, 12, 1024, 1024, 64, 64}, true, causal, nullptr, 0, true},
      {"llama-prefill-2k", {1, 32, 8, 2048, 2048, 128, 128}, false, causal, nullptr, 0, true},
      {"llama-chunk", {1, 32, 8, 512, 4096, 128, 128}, false, causal},
      {"llama-train", {1, 32, 8, 2048, 2048, 128, 128}, true, causal, nullptr, 0, true},
      {"gpt2-decode", {1, 12, 12, 1, 1024, 64, 64}},
      {"llama-decode-8k", {1, 32, 8, 1, 8192, 128, 128}},
      {"llama-decode-ragged",
       {16, 32, 8, 1, 4096, 128, 128},
       false,
       [](auto& s) { return masks::padding(lengths(s.B, s.S, 0.25)); }},
      {"llama-decode-side-by-side", {1, 32, 8, 1, 8192, 128, 128}, false, nullptr, nullptr, 0, false, 1, false, true},
      {"vit-197", {32, 12, 12, 197, 197, 64, 64}},
      {"vit-197-train", {32, 12, 12, 197, 197, 64, 64}, true},
      {"t5-bias", {8, 12, 12, 512, 512, 64, 64}, false, nullptr, t5},
      {"t5-bias-train", {8, 12, 12, 512, 512, 64, 64}, true, nullptr, t5, 0, false, 1, true},
      {"alibi-2048", {1, 16, 16, 2048, 2048, 64, 64}, false, causal, alibi},
      {"longformer-4096", {1, 12, 12, 4096, 4096, 64, 64}, false, window_global},
      {"longformer-4096-train", {1, 12, 12, 4096, 4096, 64, 64}, true, window_global},
      {"bigbird-4096", {1, 12, 12, 4096, 4096, 64, 64}, false, bigbird},
      {"bigbird-4096-train", {1, 12, 12, 4096, 4096, 64, 64}, true, bigbird},
      {"window-16k",
       {1, 32, 8, 16384, 16384, 128, 128},
       false,
       [](auto&) { return masks::sliding_window(4096); },
       nullptr,
       0,
       true},
      {"packed-documents", {1, 12, 12, 8192, 8192, 64, 64}, true, documents},
      {"swin-49", {64, 6, 6, 49, 49, 32, 32}, false, nullptr, head_bias},
      {"cross", {8, 12, 12, 64, 512, 64, 64}, false, padding},
      {"cross-train", {8, 12, 12, 64, 512, 64, 64}, true, padding},
      {"short-32", {64, 12, 12, 32, 32, 64, 64}},
      {"short-32-train", {64, 12, 12, 32, 32, 64, 64}, true},
      {"peaked-bert", {8, 12, 12, 512, 512, 64, 64}, false, nullptr, nullptr, 0, false, 8},
      {"peaked-gpt2", {4, 12, 12, 1024, 1024, 64, 64}, false, causal, nullptr, 0, true, 8},
      {"user-tree", {4, 12, 12, 1024, 1024, 64, 64}, true, tree},
      {"user-distance", {4, 12, 12, 1024, 1024, 64, 64}, true, causal, distance, 0, false, 1, true},
  };
  return cases;
}

}  // namespace fovea::bench
