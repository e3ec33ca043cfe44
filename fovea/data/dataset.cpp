// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/dataset.h"

#include <utility>

#include "fovea/base/check.h"
#include "fovea/data/random.h"

namespace fovea {

Loader::Loader(std::shared_ptr<Dataset> dataset, LoaderState state) : dataset_(std::move(dataset)) {
  FOVEA_CHECK(dataset_ != nullptr, "the dataset is null");
  restore(state);
}

void Loader::restore(const LoaderState& state) {
  FOVEA_CHECK_INPUT(state.epoch >= 0 && state.position >= 0 && state.position < dataset_->batch_count(state.epoch),
                    "data order: epoch ", state.epoch, ", batch ", state.position,
                    " does not exist in this dataset; the saved state belongs to other data");
  state_ = state;
}

Batch Loader::next() {
  Batch out = dataset_->batch(state_.epoch, state_.position);
  if (++state_.position >= dataset_->batch_count(state_.epoch)) state_ = {state_.epoch + 1, 0};
  return out;
}

Loader::Iterator& Loader::Iterator::operator++() {
  if (loader_->state_.epoch != epoch_) {
    loader_ = nullptr;
    batch_ = {};
  } else {
    batch_ = loader_->next();
  }
  return *this;
}

void Fingerprint::add(uint64_t value) { value_ = random_bits(value_, value, 0); }

void Fingerprint::add(const std::vector<TokenId>& tokens) {
  add(tokens.size());
  for (const TokenId token : tokens) value_ = (value_ ^ uint64_t(uint32_t(token))) * 0x100000001B3ull;  // FNV-1a's step
  add(uint64_t{0});
}

}  // namespace fovea
