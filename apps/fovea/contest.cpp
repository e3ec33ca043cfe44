// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/contest.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "fovea/base/check.h"
#include "fovea/kernels/dispatch.h"

namespace fovea::bench {
namespace {

constexpr size_t kFewestRounds = 5;
constexpr double kPatience = 20;  // times as long as asked for, after which fewer rounds have to do

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The most bytes that LibTorch held beyond what it held at the start.
class PeakBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t held_ = 0, peak_ = 0;
};

int64_t peak_bytes(const std::function<void()>& f) {
  const auto counter = std::make_shared<PeakBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  f();
  return counter->peak();
}

double seconds_alone(const std::function<void()>& f) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double start = now();
  f();
  const double end = now();
  at::set_num_threads(threads);
  return end - start;
}

// Work per second of all threads, the best of five rounds; f(repeats) does so many times `work` in the first cache.
double peak_rate(double work, const std::function<void(int64_t)>& f) {
  constexpr int64_t repeats = 2000;
  const int threads = at::get_num_threads();
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double start = now();
    at::parallel_for(0, threads, 1, [&](int64_t, int64_t) { f(repeats); });
    best = std::max(best, threads * repeats * work / (now() - start));
  }
  return best;
}

}  // namespace

double peak_flops() {
  return peak_rate(2.0 * 12 * 32 * 256, [](int64_t repeats) {
    std::vector<float> a(12 * 256, 0.5f), b(32 * 256 + 16, 0.5f), c(12 * 32 + 16);
    for (int64_t i = 0; i < repeats; ++i)
      isa().product({.a = a.data(),
                     .step = 12,
                     .row = 1,
                     .rows = 12,
                     .b = b.data(),
                     .b_row = 32,
                     .lanes = 32,
                     .c = c.data(),
                     .c_row = 32,
                     .n = 256,
                     .add = false});
  });
}

double peak_exps() {
  return peak_rate(double(kTileQueries * kTileKeys), [](int64_t repeats) {
    std::vector<float> scores(kTileQueries * kTileKeys);
    SoftmaxState state{};
    for (int64_t i = 0; i < repeats; ++i)  // the weights of one round are the scores of the next
      isa().softmax(scores.data(), 0, kTileKeys, kTileQueries, {}, state, nullptr, 0);
  });
}

// Each thread reads eight stretches side by side: from memory that is up to twice as fast as one after the other.
double peak_reads(int64_t bytes) {
  using Words = uint64_t __attribute__((vector_size(16), may_alias));
  constexpr int64_t kStretches = 8;
  const int64_t words = bytes / int64_t(sizeof(Words));
  const auto buffer = at::ones({bytes / 4}, at::kFloat);
  const auto* data = static_cast<const Words*>(buffer.const_data_ptr());
  std::atomic<uint64_t> seen = 0;  // or the compiler would drop the reads
  double best = 0;
  for (int round = 0; round < 7; ++round) {
    const double start = now();
    at::parallel_for(0, words, 1 << 12, [&](int64_t begin, int64_t end) {
      const int64_t stretch = (end - begin) / kStretches;
      Words sums[kStretches] = {};
      for (int64_t i = 0; i < stretch; ++i)
        for (int64_t s = 0; s < kStretches; ++s) sums[s] ^= data[begin + s * stretch + i];
      for (const Words& sum : sums) seen += sum[0] ^ sum[1];
    });
    best = std::max(best, double(bytes) / (now() - start));
  }
  return best;
}

void measure(Result& r, double seconds, const std::function<void()>& ours, const std::function<void()>& theirs) {
  r.bytes = peak_bytes(ours);
  r.peer_bytes = peak_bytes(theirs);
  std::vector<double> ratios;
  const double start = now();
  const auto goes_on = [&](double spent) {
    return spent < seconds || (ratios.size() < kFewestRounds && spent < kPatience * seconds);
  };
  while (ratios.empty() || goes_on(now() - start)) {
    const double a = now();
    ours();
    const double b = now();
    theirs();
    const double c = now();
    r.ours = std::min(r.ours, b - a), r.theirs = std::min(r.theirs, c - b);
    ratios.push_back((c - b) / (b - a));
    r.alone = std::min(r.alone, seconds_alone(ours));
  }
  r.ratio = median(ratios);
}

double largest_error(const std::vector<at::Tensor>& have, const std::vector<at::Tensor>& want) {
  double out = 0;
  for (size_t i = 0; i < want.size(); ++i)
    out = std::max(out, ((have[i].to(at::kDouble) - want[i]).abs().max() / want[i].abs().max()).item<double>());
  return out;
}

void check_error(const Result& r) {
  FOVEA_CHECK_KIND(ErrorKind::kInternal, r.error < (r.dtype == "f32" ? 1e-4 : 5e-2), "bench: ", r.name, " is off by ",
                   r.error, " of the largest number");
}

}  // namespace fovea::bench
