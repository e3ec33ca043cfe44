// `fovea bench`: our kernels against PyTorch's, in turns in one process, and against what this machine can do.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/fovea/attention_bench.h"
#include "apps/fovea/commands/registry.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/neighbour_bench.h"
#include "apps/fovea/output.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/io/files.h"
#include "fovea/kernels/dispatch.h"

namespace fovea {
namespace {

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
    std::vector<std::string> known;
    for (const auto& c : bench::attention_cases()) known.push_back(c.name);
    for (const auto& c : bench::neighbour_cases()) known.push_back(c.name);
    if (list) {
      for (const auto& name : known) output().line(name);
      return 0;
    }
    for (const auto& name : names)
      FOVEA_CHECK_CONFIG(std::find(known.begin(), known.end(), name) != known.end(), "unknown case \"", name, "\"",
                         suggestion(name, known), "; fovea bench --list names all");
    FOVEA_CHECK_CONFIG(std::isfinite(seconds) && seconds > 0, "--seconds is ", seconds, ", wanted more than 0");
    std::optional<FileCommit> report;  // what cannot be written is told before anything is measured
    if (!json.empty()) report.emplace(json);
    threads.apply();
    const bench::Peaks peaks{bench::peak_flops(), bench::peak_exps()};
    const int cores = at::get_num_threads();
    at::set_num_threads(1);
    const double alone = bench::peak_flops();
    at::set_num_threads(cores);
    tell(detail::concat(machine_summary(), " · ", isa().name, " · ", cores, " threads · peak ",
                        std::lround(peaks.flops / 1e9), " GFLOP/s (", fixed(peaks.flops / alone, 2),
                        " times one thread's), ", fixed(peaks.exps / 1e9, 1), " G exp/s"));
    output().line(
        "case                    type mode     ours ms  peer ms  ratio  scaling    rate    of ceiling  error ours/peer "
        "   "
        "extra MB ours/peer  peer");
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    const auto measured = [&](const std::string& name, const auto& measure) {
      if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) return;
      for (const auto type : {at::kFloat, at::kBFloat16})
        if (!(f32 || bf16) || (type == at::kFloat ? f32 : bf16)) {
          show(measure(type), results);
          if (!report || !report->replaces()) continue;
          save(*report, results);  // after each case, so that nothing measured is lost
          report.emplace(json);
        }
    };
    for (const auto& c : bench::attention_cases())
      measured(c.name, [&](at::ScalarType type) { return bench::run_attention_case(c, type, seconds, peaks); });
    for (const auto& c : bench::neighbour_cases())
      measured(c.name, [&](at::ScalarType type) { return bench::run_neighbour_case(c, type, seconds, peaks); });
    if (report) save(*report, results);
    return 0;
  }

  static void save(FileCommit& report, const nlohmann::ordered_json& results) {
    report.write(results.dump(1) + "\n");
    report.commit();
  }

  void show(const bench::Result& r, nlohmann::ordered_json& results) const {
    const double rate = r.work / r.ours / 1e9;
    char line[256];
    std::snprintf(line, sizeof line,
                  "%-23s %-4s %-7s %8.2f %8.2f %6.2f %8.2f %7.1f %s %7.0f %%     %.1e / %.1e %9.1f / %-9.1f %s",
                  r.name.c_str(), r.dtype.c_str(), r.mode.c_str(), r.ours * 1e3, r.theirs * 1e3, r.ratio,
                  r.alone / r.ours, rate, r.reads ? "GB/s" : "GF/s", 100 * r.ceiling, r.error, r.peer_error,
                  double(r.bytes) / 1e6, double(r.peer_bytes) / 1e6, r.peer.c_str());
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
                       {"one_thread_ms", r.alone * 1e3},
                       {r.reads ? "gbytes_per_s" : "effective_gflops", rate},
                       {"ceiling_percent", 100 * r.ceiling},
                       {"error", r.error},
                       {"peer_error", r.peer_error},
                       {"extra_bytes", r.bytes},
                       {"peer_extra_bytes", r.peer_bytes}});
  }
};

}  // namespace

void register_commands_bench(CommandsRegistry& registry) {
  registry.add("bench", command<Bench>("our kernels against PyTorch's, and against what this machine can do",
                                       "fovea bench gpt2-1024 t5-bias-train\nfovea bench --f32 --json bench.json"));
}

}  // namespace fovea
