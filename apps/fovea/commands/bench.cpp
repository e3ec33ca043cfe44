// `fovea bench`: our attention against PyTorch's, in turns in one process, and against what this machine can do.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/output.h"
#include "benchmarks/attention_cases.h"
#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/io/files.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/ops/bind.h"

namespace fovea {
namespace {

using bench::AttentionCase;

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

// One side of a case: query, key and value, and how it answers.
struct Side {
  Tensor query, key, value, gradient;
  std::vector<Tensor> learned;
  std::function<Tensor(const Side&)> call;

  std::vector<Tensor> run(bool backward) const {
    if (!backward) {
      const at::NoGradGuard guard;
      return {call(*this)};
    }
    const Tensor out = call(*this);
    std::vector<Tensor> leaves{query, key, value};
    leaves.insert(leaves.end(), learned.begin(), learned.end());
    auto all = torch::autograd::grad({out}, leaves, {gradient});
    all.insert(all.begin(), out.detach());
    return all;
  }
};

struct Result {
  std::string name, dtype, peer, mode;
  double ratio = 0, ours = 1e30, theirs = 1e30, work = 0, ceiling = 0, error = 0, peer_error = 0;
  int64_t bytes = 0, peer_bytes = 0;
};

class Measurement {
 public:
  Measurement(const AttentionCase& c, at::ScalarType type) : case_(c), type_(type) {}

  Result run(double seconds, double flops_per_second, double bytes_per_second) {
    Result r{case_.name, type_ == at::kFloat ? "f32" : "bf16", "",
             case_.backward       ? "fwd+bwd"
             : case_.shape.T == 1 ? "decode"
                                  : "fwd"};
    check(r);
    at::manual_seed(1);
    build(case_.shape, type_);
    r.peer = peer_name_;
    r.bytes = peak([&] { ours_.run(case_.backward); });
    r.peer_bytes = peak([&] { theirs_.run(case_.backward); });
    std::vector<double> ratios;
    for (const double end = now() + seconds; now() < end || ratios.size() < 5;) {
      const double a = now();
      ours_.run(case_.backward);
      const double b = now();
      theirs_.run(case_.backward);
      const double c = now();
      r.ours = std::min(r.ours, b - a), r.theirs = std::min(r.theirs, c - b);
      ratios.push_back((c - b) / (b - a));
    }
    r.ratio = median(ratios);
    const AttentionShape& s = case_.shape;
    r.work = s.T == 1 ? 2.0 * visible_pairs() / double(s.H) * double(s.G) * double(s.D) * (type_ == at::kFloat ? 4 : 2)
                      : 4.0 * visible_pairs() * double(s.D) * (case_.backward ? 3.5 : 1.0);
    r.ceiling = r.work / r.ours / (s.T == 1 ? bytes_per_second : flops_per_second);
    return r;
  }

 private:
  // Pairs of all batches and heads that the mask leaves.
  double visible_pairs() const {
    const AttentionShape& s = case_.shape;
    if (!case_.mask) return double(s.B * s.H) * double(s.T) * double(s.S);
    double pairs = 0;
    const auto bound = bind_mask(case_.mask(s), s);
    const bool by_batch = bound.object->depends_on_batch();
    std::vector<uint8_t> visible(size_t(s.S));
    for (int64_t b = 0; b < (by_batch ? s.B : 1); ++b)
      for (int64_t q = 0; q < s.T; ++q) {
        bound.object->fill({b, 0, q, q + 1, 0, s.S}, visible.data(), s.S);
        pairs += double(std::count(visible.begin(), visible.end(), 1));
      }
    return pairs * double(s.H) * double(by_batch ? 1 : s.B);
  }

  template <class F>
  static int64_t peak(const F& f) {
    const auto counter = std::make_shared<PeakBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    f();
    return counter->peak();
  }

  void build(const AttentionShape& s, at::ScalarType type) {
    const auto leaf = [&](Tensor x) { return x.requires_grad_(case_.backward); };
    ours_.query = leaf(bench::random_heads(s.B, s.H, s.T, s.D, type) * case_.query_factor);
    ours_.key = leaf(bench::random_heads(s.B, s.G, s.S, s.D, type));
    ours_.value = leaf(bench::random_heads(s.B, s.G, s.S, s.E, type));
    ours_.gradient = bench::random_heads(s.B, s.H, s.T, s.E, type);
    const Score score = case_.score ? case_.score(s) : Score();
    ours_.learned.clear();
    for (const auto& term : score.terms())
      for (const Tensor& tensor : term->data)
        if (case_.learned) ours_.learned.push_back(Tensor(tensor).requires_grad_());
    theirs_ = ours_;
    const AttentionOptions options{
        .mask = case_.mask ? case_.mask(s) : Mask(), .score = score, .dropout = case_.dropout, .dropout_seed = 3};
    ours_.call = [options](const Side& x) { return attention(x.query, x.key, x.value, options); };
    build_peer(s, type, options);
  }

  // PyTorch's own attention, told the same by the means it has: is_causal, a boolean mask, a float bias.
  void build_peer(const AttentionShape& s, at::ScalarType type, const AttentionOptions& options) {
    const bool grouped = s.G != s.H;
    peer_name_ = case_.dropout > 0 || case_.learned ? "PyTorch (math)" : "PyTorch";
    if (options.score.is_empty()) {
      std::optional<Tensor> mask;
      if (case_.mask && !case_.is_causal) mask = visible(options.mask, s, 0, s.B);
      const bool is_causal = case_.is_causal;
      const double dropout = case_.dropout;
      theirs_.call = [=](const Side& x) {
        return at::scaled_dot_product_attention(x.query, x.key, x.value, mask, dropout, is_causal, std::nullopt,
                                                grouped);
      };
      return;
    }
    // The definition adds up the bias [1, H, T, S]; where it is learned, its making is part of the work, as in a model.
    const auto bias = [=, score = options.score, mask = options.mask] {
      Tensor out = at::zeros({1, s.H, s.T, s.S});
      if (!mask.is_full()) out = out.masked_fill(visible(mask, s, 0, 1).logical_not(), -INFINITY);
      for (const auto& term : score.terms()) out = out + dense_bias(*term, s);
      return out.to(type);
    };
    if (case_.learned) {
      theirs_.call = [=](const Side& x) {
        return at::scaled_dot_product_attention(x.query, x.key, x.value, bias(), 0.0, false, std::nullopt, grouped);
      };
      return;
    }
    theirs_.call = [=, fixed = bias()](const Side& x) {
      return at::scaled_dot_product_attention(x.query, x.key, x.value, fixed, 0.0, false, std::nullopt, grouped);
    };
  }

  static Tensor dense_bias(const Score::Term& term, const AttentionShape& s) {
    if (term.name == "dense") return term.data[0];
    const auto distance = at::arange(s.S) - at::arange(s.T).unsqueeze(1) - s.offset();  // [T, S]
    if (term.name == "slopes") return -term.data[0].view({s.H, 1, 1}) * distance.abs();
    if (term.user) return term.data[0].view({s.H, 1, 1}) * distance;  // the one user's rule of the list
    std::vector<int64_t> buckets;
    for (int64_t d = -(s.T - 1 + s.offset()); d <= s.S - 1 - s.offset(); ++d)
      buckets.push_back(t5_bucket(d, true, term.data[0].size(0), term.numbers[1]));
    const auto rows = at::tensor(buckets).index_select(0, (distance + (s.T - 1 + s.offset())).flatten());
    return at::embedding(term.data[0], rows).view({s.T, s.S, s.H}).permute({2, 0, 1});
  }

  // The largest error against f64 of output and gradients, relative to the largest number, for one key/value head of
  // one batch.
  void check(Result& r) {
    AttentionShape small = case_.shape;
    small.H /= small.G, small.G = 1, small.B = 1;
    while (small.T * small.S > (int64_t{1} << 22) * (case_.mask ? 4 : 1))
      small.T = (small.T + 1) / 2, small.S = (small.S + 1) / 2;
    at::manual_seed(2);
    build(small, type_);
    const auto have = ours_.run(case_.backward), other = theirs_.run(case_.backward);
    Side wide = ours_;
    for (Tensor* x : {&wide.query, &wide.key, &wide.value, &wide.gradient})
      *x = x->detach().to(at::kDouble).requires_grad_(case_.backward);
    const auto want = wide.run(case_.backward);
    for (size_t i = 0; i < want.size(); ++i) {
      const auto error = [&](const Tensor& x) {
        return ((x.to(at::kDouble) - want[i]).abs().max() / want[i].abs().max()).item<double>();
      };
      r.error = std::max(r.error, error(have[i]));
      if (case_.dropout == 0) r.peer_error = std::max(r.peer_error, error(other[i]));
    }
    FOVEA_CHECK_KIND(ErrorKind::kInternal, r.error < (type_ == at::kFloat ? 1e-4 : 5e-2), "bench: ", case_.name,
                     " is off by ", r.error, " of the largest number");
  }

  const AttentionCase& case_;
  at::ScalarType type_;
  Side ours_, theirs_;
  std::string peer_name_;
};

// FMA peak of all threads: the product loop on operands that stay in the first cache.
double measure_flops() {
  const int threads = at::get_num_threads();
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double start = now();
    constexpr int64_t repeats = 2000;
    at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
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
    best = std::max(best, threads * repeats * 2.0 * 12 * 32 * 256 / (now() - start));
  }
  return best;
}

// Plain reads of all threads over a buffer of so many bytes.
double measure_reads(int64_t bytes) {
  const auto buffer = at::ones({bytes / 4}, at::kFloat);
  const float* data = buffer.data_ptr<float>();
  double best = 0;
  for (int round = 0; round < 7; ++round) {
    const double start = now();
    at::parallel_for(0, bytes / 4, 1 << 14,
                     [&](int64_t begin, int64_t end) { isa().finite(data + begin, end - begin); });
    best = std::max(best, double(bytes) / (now() - start));
  }
  return best;
}

struct Bench {
  std::vector<std::string> names;
  std::string json;
  bool bf16 = false, f32 = false, list = false;
  double seconds = 2;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.flag("--f32", f32, "f32 only");
    line.flag("--bf16", bf16, "bf16 only");
    line.option("--seconds", "S", seconds, "how long a case is measured (default 2)");
    line.option("--json", "FILE", json, "write the results as one JSON array");
    line.flag("--list", list, "the names of all cases");
    threads.declare(line);
    line.positional("CASE", names, "which cases; without: all");
  }

  int run() {
    const auto& all = bench::attention_cases();
    std::vector<std::string> known;
    for (const auto& c : all) known.push_back(c.name);
    if (list) {
      for (const auto& name : known) output().line(name);
      return 0;
    }
    for (const auto& name : names)
      FOVEA_CHECK_CONFIG(std::find(known.begin(), known.end(), name) != known.end(), "unknown case ", name,
                         suggestion(name, known), "; fovea bench --list names all");
    threads.apply();
    const double flops = measure_flops();
    tell(detail::concat(machine_summary(), " · ", isa().name, " · ", at::get_num_threads(), " threads · peak ",
                        std::lround(flops / 1e9), " GFLOP/s"));
    output().line(
        "case                    type mode     ours ms  peer ms  ratio     rate    of ceiling  error ours/peer    "
        "extra MB ours/peer  peer");
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const auto& c : all) {
      if (!names.empty() && std::find(names.begin(), names.end(), c.name) == names.end()) continue;
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        if ((f32 || bf16) && !(type == at::kFloat ? f32 : bf16)) continue;
        const AttentionShape& s = c.shape;
        const double reads = s.T == 1 ? measure_reads(2 * s.B * s.G * s.S * s.D * (type == at::kFloat ? 4 : 2)) : 1;
        const Result r = Measurement(c, type).run(seconds, flops, reads);
        show(r, results);
      }
    }
    if (!json.empty()) write_file(json, results.dump(1) + "\n");
    return 0;
  }

  void show(const Result& r, nlohmann::ordered_json& results) const {
    const bool decode = r.mode == "decode";
    const double rate = r.work / r.ours / 1e9;
    char line[256];
    std::snprintf(line, sizeof line,
                  "%-23s %-4s %-7s %8.2f %8.2f %6.2f %7.1f %s %7.0f %%     %.1e / %.1e %9.1f / %-9.1f %s",
                  r.name.c_str(), r.dtype.c_str(), r.mode.c_str(), r.ours * 1e3, r.theirs * 1e3, r.ratio, rate,
                  decode ? "GB/s" : "GF/s", 100 * r.ceiling, r.error, r.peer_error, double(r.bytes) / 1e6,
                  double(r.peer_bytes) / 1e6, r.peer.c_str());
    output().line(line);
    output().flush();
    results.push_back({{"case", r.name},
                       {"mode", r.mode},
                       {"dtype", r.dtype},
                       {"isa", isa().name},
                       {"threads", at::get_num_threads()},
                       {"peer", r.peer},
                       {"ratio", r.ratio},
                       {"ours_ms", r.ours * 1e3},
                       {"peer_ms", r.theirs * 1e3},
                       {decode ? "gbytes_per_s" : "effective_gflops", rate},
                       {"ceiling_percent", 100 * r.ceiling},
                       {"error", r.error},
                       {"peer_error", r.peer_error},
                       {"extra_bytes", r.bytes},
                       {"peer_extra_bytes", r.peer_bytes}});
  }
};

}  // namespace

void register_commands_bench(CommandsRegistry& registry) {
  registry.add("bench", command<Bench>("attention against PyTorch's, and against what this machine can do",
                                       "fovea bench gpt2-1024 t5-bias-train\nfovea bench --f32 --json bench.json"));
}

}  // namespace fovea
