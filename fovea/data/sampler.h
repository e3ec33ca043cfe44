// Shuffling that can resume: the item at a place of an epoch is a function of (seed, epoch, position), so two integers
// are the whole state of a run's data order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fovea {

class Sampler {
 public:
  // Items 0 … size − 1, size ≥ 1; without `shuffle` in their own order, every epoch.
  Sampler(int64_t size, uint64_t seed, bool shuffle = true);

  int64_t size() const { return size_; }
  // The item at `position` (0 … size − 1) of `epoch` (0 …); each epoch is a permutation of all items.
  int64_t at(int64_t epoch, int64_t position);
  // The whole epoch; valid until another epoch is asked for.
  const std::vector<int64_t>& order(int64_t epoch);

 private:
  int64_t size_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;  // the one that order_ holds: computed once, not stored
  std::vector<int64_t> order_;
};

}  // namespace fovea
