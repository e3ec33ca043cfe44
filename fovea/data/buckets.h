// Batches of items of similar length, so that little of a batch is padding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea {

// Limits of a batch; 0: no limit. At least one of the first two must be given.
struct BucketOptions {
  int64_t batch_size = 0;    // items
  int64_t batch_tokens = 0;  // items × longest length, padding included; one longer item makes a batch of its own
  int64_t pool = 4096;       // items (in shuffled order) that are sorted by length together
  bool shuffle = true;       // false: one pool, shortest batch first
  uint64_t seed = 0;
};

// Every item (lengths[i] ≥ 0) in exactly one batch; a function of the arguments. Shuffling comes first, so that
// neighbours change from epoch to epoch; sorting within a pool then groups lengths, and the pools' batches are
// shuffled.
std::vector<std::vector<int64_t>> bucket_batches(const std::vector<int64_t>& lengths, const BucketOptions& options,
                                                 int64_t epoch);

// What datasets have in common whose batches are such items.
class BucketedDataset : public Dataset {
 public:
  int64_t batch_count(int64_t epoch) override { return int64_t(plan(epoch).size()); }
  int64_t longest_row() const override;

 protected:
  // Error(kConfig) for impossible limits.
  explicit BucketedDataset(const BucketOptions& options);
  void add_item(int64_t length) { lengths_.push_back(length); }
  int64_t item_count() const { return int64_t(lengths_.size()); }
  // Those of a batch, which must be one of the epoch's.
  const std::vector<int64_t>& items(int64_t epoch, int64_t index);
  // The limits' part of a fingerprint.
  Fingerprint buckets_fingerprint() const;

 private:
  const std::vector<std::vector<int64_t>>& plan(int64_t epoch);

  BucketOptions options_;
  std::vector<int64_t> lengths_;
  std::vector<std::vector<int64_t>> plan_;  // batches of epoch plan_epoch_
  int64_t plan_epoch_ = -1;
};

}  // namespace fovea
