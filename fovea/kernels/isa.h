// The few loops that attention and its neighbours spend their time in, once per instruction set. Everything above them
// is written once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fovea {

// A tile of scores: up to 32 queries, which lie in the lanes of a register, by up to 64 keys. Tiles are stored key by
// key, tile[k · kTileQueries + q], so that maximum and sum of a query run down a lane and never across one.
constexpr int64_t kTileQueries = 32, kTileKeys = 64;
using QueryBits = uint32_t;  // one bit per query of a tile

enum class Number : uint8_t { kFloat, kBFloat16 };

// rows × width numbers in memory, any strides (in elements).
struct Matrix {
  void* data = nullptr;
  Number type = Number::kFloat;
  int64_t row = 0, column = 1;

  Matrix at(int64_t element) const {
    return {static_cast<char*>(data) + element * (type == Number::kFloat ? 4 : 2), type, row, column};
  }
  // Rows that can be read in place as f32.
  const float* plain() const {
    return type == Number::kFloat && column == 1 ? static_cast<const float*>(data) : nullptr;
  }
};

// Two bf16 that stand side by side on the axis a product sums over: what one step of a dot-product instruction takes.
struct Pair {
  uint16_t even, odd;
};

// c[r][lane] (+)= factor · Σ_i a[i · step + r · row] · b[i][lane] for r < rows, i < n, lane < lanes; of pairs, both
// products. Either step or row is 1. Lanes are computed in whole registers: b and c have room for them. Sums start from
// zero and are added to c at the end.
template <class T>
struct ProductOf {
  const T* a;
  int64_t step, row, rows;
  const T* b;
  int64_t b_row, lanes;
  float* c;
  int64_t c_row, n;
  bool add;
  float factor = 1;  // read for pairs only, which scaling would round once more; f32 is scaled when it is packed
};
using Product = ProductOf<float>;
using PairProduct = ProductOf<Pair>;

// Dropout of a tile; see dropout.h.
struct TileDropout {
  uint64_t threshold = 0, seed = 0;  // threshold 0: nothing is dropped
  float kept = 1;                    // 1 / (1 − p)
  int64_t b = 0, h = 0, q0 = 0;
};

// What the online softmax remembers of each query of a tile.
struct SoftmaxState {
  float peak[kTileQueries];  // the maximum that weights are relative to; it may lag behind the true one
  float sum[kTileQueries];
  // Weights are about to be rounded to bf16: sum what is left of them, so that where one outweighs all others its
  // rounding cancels.
  bool rounded = false;
};

// One or a few queries against many keys: the dot products and the weighted sum that decoding consists of.
struct DecodeBlock {
  const float* query;  // [rows][width], scaled
  int64_t rows, keys, width;
  Matrix matrix;  // keys (or values): [keys][width], column stride 1
  float* scores;  // [rows][kTileKeys]
  float* output;  // [rows][width]
  Matrix next;    // what decode_output will read: row k of it is asked for while decode_scores reads row k of `matrix`
};

// Dropout of the element in row r and column c of what a part of a block adds; see dropout.h.
struct RowDropout {
  uint64_t threshold = 0, seed = 0;  // threshold 0: nothing is dropped
  float kept = 1;                    // 1 / (1 − p)
};

// sum = x + dropout(added); normed = (sum − mean) · inverse · weight + bias. Rows are contiguous, `width` long.
struct NormRows {
  Number type;  // of x, added, sum, normed
  int64_t width;
  const void *x, *added;  // without `added`, x itself is normalised and `sum` stays untouched
  void *sum, *normed;
  const float *weight, *bias;  // bias may be nullptr
  float *mean, *inverse;       // [rows], out: what the gradient needs
  float eps;
  bool centred;  // false: RMS norm, whose mean is 0
  RowDropout dropout;
};

struct NormRowsGradient {
  Number type;
  int64_t width;
  const void* sum;                             // what was normalised
  const void *normed_gradient, *sum_gradient;  // the second may be nullptr
  const float *weight, *mean, *inverse;
  bool centred;
  void *x_gradient, *added_gradient;       // the second is nullptr where both are one (no dropout)
  float *weight_gradient, *bias_gradient;  // [width], added to; the second may be nullptr
  RowDropout dropout;
};

// Rotary positions of one token: rows × width numbers, of which the first `turned` of each row turn.
//   to = from · cosine + swapped(from) · sine, where the sine holds the sign of its place
struct Rotation {
  Matrix from, to;
  int64_t rows, width, turned;
  const float *cosine, *sine;  // [turned]
  bool interleaved;            // pairs are neighbours, else half a row apart
  bool back;                   // the other way round: the gradient
};

// output[m][n] = Σ_k input[m][k] · weight[n][k] + bias[n] for a few rows m: bound by reading the weights.
struct SkinnyLinear {
  const float* input;  // [rows][width]
  Matrix weight;       // [outputs][width], column stride 1
  const float* bias;   // [outputs] or nullptr
  float* output;       // [rows][pitch]
  int64_t rows, width, pitch;
};

struct Isa {
  const char* name;
  int lanes;
  const char* needs;    // the processor's features, in the compiler's names, separated by blanks
  const char* fast_on;  // the vendor on whose processors it is worth choosing unasked; "": all

  void (*product)(const Product&);
  // Sums in f32; nullptr where there is no such instruction, and bf16 is widened to f32 instead.
  void (*product_pairs)(const PairProduct&);
  // Rows 2r and 2r + 1 -> to[r][column], `pitch` apart, rounded to nearest even; a last row without partner gets zeros.
  void (*pair_rows)(const Matrix& from, int64_t rows, int64_t width, Pair* to, int64_t pitch);
  // Rows of any type and stride -> f32 rows[r][·], `pitch` apart, times scale; columns from width to pitch become 0.
  void (*pack)(const Matrix& from, int64_t rows, int64_t width, float scale, float* to, int64_t pitch);
  // f32 rows -> tile[column][query], times scale; queries from `rows` to kTileQueries become 0.
  void (*transpose)(const float* from, int64_t pitch, int64_t rows, int64_t width, float scale, float* tile);
  // tile[column][query] · factor[query] -> rows.
  void (*store_transposed)(const float* tile, const float* factor, int64_t rows, int64_t width, const Matrix& to);
  void (*store)(const float* from, int64_t pitch, int64_t rows, int64_t width, const Matrix& to);
  // −∞ where a query's bit is not set.
  void (*hide)(float* scores, int64_t keys, const QueryBits* visible);
  // scores -> exp(score − peak), which are added to the sums; then dropout. Where a peak rises, `output` [width][query]
  // and the sum are brought to the new one.
  void (*softmax)(float* scores, int64_t k0, int64_t keys, int64_t queries, const TileDropout&, SoftmaxState&,
                  float* output, int64_t width);
  // scores -> weights after dropout; weight_gradients -> score gradients.
  void (*softmax_backward)(float* scores, float* weight_gradients, int64_t k0, int64_t keys, int64_t queries,
                           const TileDropout&, const float* log_sum_exp, const float* delta);
  // c · tanh(score / c), and the gradient through it given its result.
  void (*soft_cap)(float* scores, int64_t keys, float cap);
  void (*soft_cap_backward)(float* gradients, const float* capped, int64_t keys, float cap);
  bool (*finite)(const float* from, int64_t count);
  // GELU by tanh: x / (1 + e⁻²ᵘ), u = √(2/π) · (x + 0.044715 x³); and its gradient.
  void (*gelu)(const float* x, float* y, int64_t count);
  void (*gelu_backward)(const float* x, const float* gradient, float* out, int64_t count);
  // Rows begin … end − 1.
  void (*norm)(const NormRows&, int64_t begin, int64_t end);
  void (*norm_backward)(const NormRowsGradient&, int64_t begin, int64_t end);
  // One row of logits -> its loss for `label` with smoothing ε; `gradient`: the logits become the loss's gradient.
  float (*cross_entropy)(float* logits, int64_t vocabulary, int64_t label, float smoothing, bool gradient);
  void (*rotate)(const Rotation&);
  // Outputs begin … end − 1.
  void (*skinny_linear)(const SkinnyLinear&, int64_t begin, int64_t end);
  // scores[r][k] = query[r] · key[k].
  void (*decode_scores)(const DecodeBlock&);
  // scores -> weights relative to the new peak; returns the factor for what was summed before.
  float (*decode_softmax)(float* scores, int64_t keys, float& peak, float& sum);
  // output[r] += Σ_k scores[r][k] · value[k].
  void (*decode_output)(const DecodeBlock&);
};

}  // namespace fovea
