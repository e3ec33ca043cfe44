// Attention dropout: whether a weight is kept depends on (seed, batch, head, query, key) alone, so any tile size,
// thread count or instruction set gives the same answer, and the backward pass recomputes it.
//
// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) gives 128 bits for 16
// neighbouring keys: word (k / 4) mod 4, rotated left by 8 · (k mod 4), is compared as a whole with p · 2³², so p is
// not rounded to eight bits. The four decisions of one word share bits, but their leading bytes, which decide, are
// independent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

struct PhiloxBlock {
  uint32_t word[4];
};

inline PhiloxBlock philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t(0xD2511F53u) * c0, right = uint64_t(0xCD9E8D57u) * c2;
    c0 = uint32_t(right >> 32) ^ c1 ^ key0;
    c1 = uint32_t(right);
    c2 = uint32_t(left >> 32) ^ c3 ^ key1;
    c3 = uint32_t(left);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

class AttentionDropout {
 public:
  // p in [0, 1]: the probability to drop.
  AttentionDropout(double p, uint64_t seed) : threshold_(uint64_t(p * 4294967296.0 + 0.5)), seed_(seed) {}

  PhiloxBlock block(int64_t b, int64_t h, int64_t q, int64_t k) const {
    return philox(seed_, uint32_t(k >> 4), uint32_t(q), uint32_t(h), uint32_t(b));
  }
  bool kept(const PhiloxBlock& block, int64_t k) const {
    const uint32_t word = block.word[(k >> 2) & 3];
    const int turn = 8 * int(k & 3);
    const uint32_t turned = turn == 0 ? word : (word << turn) | (word >> (32 - turn));
    return turned >= threshold_;
  }
  bool kept(int64_t b, int64_t h, int64_t q, int64_t k) const { return kept(block(b, h, q, k), k); }

 private:
  uint64_t threshold_;  // 2³² drops everything
  uint64_t seed_;
};

// Dropout of rows (what a block adds to its residual stream): the decision on column c of row r. The i-th decision of
// counter j falls on column 256 · g + 16 · i + j.
class RowsDropout {
 public:
  RowsDropout(double p, uint64_t seed) : threshold_(uint64_t(p * 4294967296.0 + 0.5)), seed_(seed) {}

  bool kept(int64_t row, int64_t column) const {
    const int64_t counter = column / 256 * 16 + column % 16, i = column / 16 % 16;
    const PhiloxBlock block = philox(seed_, uint32_t(counter), uint32_t(row), uint32_t(uint64_t(row) >> 32), 0);
    const uint32_t word = block.word[i / 4];
    const int turn = 8 * int(i % 4);
    return (turn == 0 ? word : (word << turn) | (word >> (32 - turn))) >= threshold_;
  }
  uint64_t threshold() const { return threshold_; }

 private:
  uint64_t threshold_, seed_;
};

}  // namespace fovea
