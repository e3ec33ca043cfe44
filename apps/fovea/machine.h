// What this machine and this build are: for `env` and the first line of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/fovea/command_line.h"

namespace fovea {

std::string processor_name();
// The vector and matrix extensions that CPU and operating system offer, lowest first: "avx2", "avx512_bf16" …
std::vector<std::string> processor_features();
// "2 threads, avx512_bf16"
std::string machine_summary();

// --threads, for verbs that compute.
struct ThreadsOption {
  int64_t threads = 0;
  void declare(CommandLine& line);
  void apply() const;  // 0 leaves LibTorch's choice (OMP_NUM_THREADS, or one a core)
};

}  // namespace fovea
