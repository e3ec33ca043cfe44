// Attention as the kernels see it: pointers, strides and sizes. Exact, fused, tile by tile; no tensor of all scores
// exists.
//
//   score = scale · q·k → soft cap → visitors → mask → softmax → dropout → · v
//
// Forward and backward walk the same plan of tiles; nothing that the mask hides is computed. Results do not depend on
// the number of threads: work is split by shapes alone, and partial results are joined in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/kernels/isa.h"
#include "fovea/kernels/score_visitor.h"
#include "fovea/kernels/tile_plan.h"

namespace fovea {

// [heads, rows, width] of one sequence.
struct Heads {
  Matrix first;
  int64_t head = 0;  // stride, in elements
  Matrix at(int64_t h) const { return first.at(h * head); }
};

struct Sequence {
  int64_t batch = 0, T = 0, S = 0;  // batch: what masks, visitors and dropout see as b
  Heads query, key, value;          // H, G, G heads
  Heads output;                     // written forward, read backward
  float* log_sum_exp = nullptr;     // [H][T]: written forward, read backward
  const TilePlans* plans = nullptr;
  int64_t plan = 0;  // this sequence's b in `plans`
  std::vector<const ScoreVisitor*> visitors;

  Heads output_gradient;                               // read backward
  Heads query_gradient, key_gradient, value_gradient;  // written backward

  const TilePlanRows& plan_of(int64_t h) const { return plans->at(plan, h); }
};

// The gradient of a visitor's parameter, contiguous f32, added to; nullptr where none is wanted.
struct LearnedGradient {
  float* data = nullptr;
  int64_t size = 0;
};

struct AttentionTask {
  int64_t H = 0, G = 0, D = 0, E = 0;
  float scale = 1, soft_cap = 0;
  double dropout = 0;
  uint64_t dropout_seed = 0;
  std::vector<Sequence> sequences;
  std::vector<std::vector<LearnedGradient>> learned;  // [visitor][parameter], backward
  int threads = 1;
  ParallelFor parallel;
  const Isa* isa = nullptr;

  TileDropout tile_dropout(int64_t b, int64_t h, int64_t q0) const;
  // Whether products are of pairs of bf16: all inputs are, and the instruction set has them.
  bool paired() const;
};

// Writes output and log_sum_exp (−∞ where a query sees nothing). false, and unspecified output: a key or value that is
// hidden from some query may hold NaN or infinity, which multiplication by a weight of 0 would not keep out.
bool attention_forward(const AttentionTask& task);
// Writes the gradients of query, key and value and adds to those of the visitors.
void attention_backward(const AttentionTask& task);

}  // namespace fovea
