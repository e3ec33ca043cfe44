// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/sampler.h"

#include <numeric>

#include "fovea/base/check.h"
#include "fovea/data/random.h"

namespace fovea {

Sampler::Sampler(int64_t size, uint64_t seed, bool shuffle) : size_(size), seed_(seed), shuffle_(shuffle) {
  FOVEA_CHECK(size >= 1, "size is ", size, ", must be at least 1");
}

int64_t Sampler::at(int64_t epoch, int64_t position) {
  FOVEA_CHECK(position >= 0 && position < size_, "position ", position, " is outside 0 … ", size_ - 1);
  return shuffle_ ? order(epoch)[size_t(position)] : position;
}

const std::vector<int64_t>& Sampler::order(int64_t epoch) {
  FOVEA_CHECK(epoch >= 0, "epoch is ", epoch, ", must not be negative");
  if (epoch_ == epoch) return order_;
  if (shuffle_) {
    order_ = random_permutation(size_, seed_, uint64_t(epoch));
  } else if (order_.empty()) {
    order_.resize(size_t(size_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }
  epoch_ = epoch;
  return order_;
}

}  // namespace fovea
