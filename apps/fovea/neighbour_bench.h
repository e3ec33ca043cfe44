// What stands beside attention in every block, against the same in LibTorch's operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "apps/fovea/contest.h"

namespace fovea::bench {

// One side's outputs and gradients.
using Answers = std::vector<at::Tensor>;

struct Neighbour {
  std::string mode;
  bool reads = false;
  double work = 0;
  // The call on inputs of any type; `exact`: dropout is off, so that results can be compared.
  std::function<Answers(const Answers&inputs, bool exact)> ours, theirs;
  Answers inputs, few;  // f32; those that are timed, and those that are checked
  size_t typed = 4;     // how many of them, from the first on, take the case's type; tables stay f32
};

struct NeighbourCase {
  std::string name;
  std::function<Neighbour(at::ScalarType type)> make;
};

const std::vector<NeighbourCase>& neighbour_cases();

Result run_neighbour_case(const NeighbourCase& which, at::ScalarType type, double seconds, const Peaks& peaks);

}  // namespace fovea::bench
