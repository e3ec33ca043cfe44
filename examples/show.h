// What the examples share: small tensors as tables, and the claim that each of them checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// A table of a vector or matrix, with names for its rows where they are given.
inline void show(const char* title, const at::Tensor& numbers, const std::vector<std::string>& rows = {}) {
  const at::Tensor table = numbers.detach().to(at::kDouble).reshape({-1, numbers.size(-1)});
  std::printf("%s\n", title);
  for (int64_t i = 0; i < table.size(0); ++i) {
    std::printf("  %-8s", size_t(i) < rows.size() ? rows[size_t(i)].c_str() : "");
    for (int64_t j = 0; j < table.size(1); ++j) std::printf(" %7.3f", table[i][j].item<double>());
    std::printf("\n");
  }
}

// Largest difference between two tensors.
inline double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

// Says what was checked; ends the program with exit code 1 where it is false.
inline void claim(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "[true] " : "[FALSE]", what);
  if (!holds) std::exit(1);
}
