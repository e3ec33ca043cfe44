// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/random_blocks.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "fovea/base/check.h"

namespace fovea {
namespace {

using Blocks = std::vector<int64_t>;

Blocks block_range(int64_t begin, int64_t end) {
  Blocks out(size_t(std::max<int64_t>(0, end - begin)));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

// std::mt19937 is seeded as NumPy's legacy generator is; what it makes of the stream is written out.
class LegacyRandom {
 public:
  explicit LegacyRandom(int64_t seed) : stream_(uint32_t(seed)) {}

  // From the last element on, each changes places with one before it or itself.
  Blocks permuted(Blocks x) {
    for (size_t i = x.size(); i-- > 1;) std::swap(x[i], x[up_to(uint32_t(i))]);
    return x;
  }

 private:
  // 0 … most: numbers under the next mask of ones, until one fits.
  uint32_t up_to(uint32_t most) {
    uint32_t mask = most;
    for (const int shift : {1, 2, 4, 8, 16}) mask |= mask >> shift;
    while (true)
      if (const uint32_t drawn = uint32_t(stream_()) & mask; drawn <= most) return drawn;
  }

  std::mt19937 stream_;
};

// The last block that the paper's lengths draw from is the one that ends with this token.
constexpr int64_t kDrawnTokens = 1024;

bool has_paper_length(int64_t tokens) { return tokens == 1024 || tokens == 3072 || tokens == 4096; }

// Of a model of n blocks, what block i draws from; the middle blocks 1 … n − 2 are counted from 0 here.
Blocks paper_candidates(int64_t i, int64_t n, int64_t size) {
  const Blocks middle = block_range(1, n - 1);
  const int64_t last = kDrawnTokens > 2 * size ? kDrawnTokens / size - 1 : n - 1;
  const auto cut = [&](int64_t begin, int64_t end) {
    const int64_t count = int64_t(middle.size());
    return Blocks(middle.begin() + std::min(begin, count),
                  middle.begin() + std::clamp(end, std::min(begin, count), count));
  };
  if (i == 1 || i == 2) return cut(i + 1, last);
  if (i >= n - 3) return cut(0, last);
  const int64_t left = i - 2, right = i + 1;  // the window's neighbours
  if (left > last || right == last) return cut(0, std::min(left, last));
  Blocks out = cut(0, left);
  const Blocks behind = cut(right, last);
  out.insert(out.end(), behind.begin(), behind.end());
  return out;
}

Blocks paper_row(LegacyRandom& random, const RandomBlocksOptions& o, int64_t i, int64_t n) {
  Blocks out = random.permuted(paper_candidates(i, n, o.size));
  out.resize(std::min(out.size(), size_t(o.each)));
  return out;
}

// Drawn among the first 2R + 5 blocks, but for the window and the borders.
Blocks planned_row(LegacyRandom& random, const RandomBlocksOptions& o, int64_t i) {
  const int64_t end = 2 * o.each + 5;
  const auto hidden = [&](int64_t j) {
    return std::abs(i - j) <= 1 || j == 0 || j == end - 1 || (i == 1 && j == end - 2) || (i == end - 2 && j == 1);
  };
  Blocks out;
  for (const int64_t j : random.permuted(block_range(0, end)))
    if (!hidden(j) && int64_t(out.size()) < o.each) out.push_back(j);
  return out;
}

}  // namespace

at::Tensor random_blocks(const RandomBlocksOptions& o, int64_t blocks) {
  at::Tensor out = at::zeros({o.heads, blocks, o.each}, at::kLong);
  if (o.each == 0) return out;
  auto values = out.accessor<int64_t, 3>();
  LegacyRandom random(o.layer);
  const auto put = [&](int64_t h, int64_t i, const Blocks& drawn) {
    // A single one stands for all, as an array of one element does in NumPy.
    FOVEA_CHECK_CONFIG(int64_t(drawn.size()) == o.each || drawn.size() == 1, "big_bird: block ", i, " of ", blocks,
                       " draws ", o.each, " blocks (num_random_blocks), only ", drawn.size(), " of ", o.size,
                       " tokens (block_size) are left to it");
    for (int64_t r = 0; r < o.each; ++r) values[h][i][r] = drawn[drawn.size() == 1 ? 0 : size_t(r)];
  };
  if (has_paper_length(blocks * o.size)) {
    // Head by head, all rows of the longest text, whether this one has them or not.
    const int64_t n = std::max(o.positions / o.size, blocks);
    for (int64_t h = 0; h < o.heads; ++h)
      for (int64_t i = 1; i + 1 < n; ++i) {
        const Blocks drawn = paper_row(random, o, i, n);
        if (i + 1 < blocks) put(h, i, drawn);
      }
  } else {
    for (int64_t i = 1; i + 1 < blocks; ++i)
      for (int64_t h = 0; h < o.heads; ++h) put(h, i, planned_row(random, o, i));
  }
  return out;
}

}  // namespace fovea
