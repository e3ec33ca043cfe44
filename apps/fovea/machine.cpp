// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/machine.h"

#include <ATen/Parallel.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "fovea/base/check.h"

namespace fovea {
namespace {

// The value of the first line of /proc/cpuinfo that begins with one of these names.
std::string cpuinfo(const std::set<std::string>& names) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::string name = line.substr(0, line.find_first_of("\t:"));
    const size_t value = line.find(": ");
    if (names.count(name) && value != std::string::npos) return line.substr(value + 2);
  }
  return "";
}

}  // namespace

std::string processor_name() {
  const std::string name = cpuinfo({"model name", "Model", "Hardware"});
  return name.empty() ? "unknown" : name;
}

std::vector<std::string> processor_features() {
  // Linux's names beside ours.
  static constexpr std::array<std::pair<const char*, const char*>, 10> kFeatures{{{"f16c", "f16c"},
                                                                                  {"fma", "fma"},
                                                                                  {"avx", "avx"},
                                                                                  {"avx2", "avx2"},
                                                                                  {"avx512f", "avx512"},
                                                                                  {"avx512_vnni", "avx512_vnni"},
                                                                                  {"avx512_bf16", "avx512_bf16"},
                                                                                  {"amx_bf16", "amx_bf16"},
                                                                                  {"asimd", "neon"},
                                                                                  {"sve", "sve"}}};
  std::istringstream flags(cpuinfo({"flags", "Features"}));
  std::set<std::string> present;
  for (std::string flag; flags >> flag;) present.insert(flag);
  std::vector<std::string> out;
  for (const auto& [linux_name, name] : kFeatures)
    if (present.count(linux_name)) out.emplace_back(name);
  return out;
}

std::string machine_summary() {
  const int threads = at::get_num_threads();
  const auto features = processor_features();
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         (features.empty() ? "" : ", " + features.back());
}

void ThreadsOption::declare(CommandLine& line) {
  line.option("--threads", "N", threads, "cores to use; 0: LibTorch's choice");
}

void ThreadsOption::apply() const {
  FOVEA_CHECK_CONFIG(threads >= 0 && threads <= 4096, "--threads is ", threads, ", wanted 1 … 4096, or 0");
  if (threads > 0) at::set_num_threads(int(threads));
}

}  // namespace fovea
