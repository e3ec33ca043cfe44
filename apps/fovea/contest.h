// Two ways to compute the same thing, in turns: who is faster, by how much, how exact and how large each is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace fovea::bench {

struct Result {
  std::string name, dtype, peer, mode;
  bool reads = false;  // the work is bytes to read, otherwise floating-point operations
  double ratio = 0, ours = 1e30, theirs = 1e30, alone = 1e30;  // alone: ours with one thread
  double work = 0, ceiling = 0, error = 0, peer_error = 0;
  int64_t bytes = 0, peer_bytes = 0;
};

// What the machine can do with all threads, measured.
double peak_flops();                   // per second, of fused multiply-adds on operands in the first cache
double peak_exps();                    // per second, of tiles of scores to weights in the first cache
double peak_reads(int64_t footprint);  // bytes per second, plain reads of a buffer of so many

struct Peaks {
  double flops, exps;
};

// Fills in times, the median of the per-round ratios, and the memory each takes beyond what it began with.
void measure(Result& result, double seconds, const std::function<void()>& ours, const std::function<void()>& theirs);

// The largest error of any of `have`, relative to the largest number of its `want` (f64).
double largest_error(const std::vector<at::Tensor>& have, const std::vector<at::Tensor>& want);

// Throws where our error is beyond what the type allows: a wrong result is not timed.
void check_error(const Result& result);

}  // namespace fovea::bench
