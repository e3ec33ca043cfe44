// Batches of items of similar length, so that little of a batch is padding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace fovea {

class Fingerprint;

// Limits of a batch; 0: no limit. At least one of the first two must be given.
struct BucketOptions {
  int64_t batch_size = 0;    // items
  int64_t batch_tokens = 0;  // items × longest length, padding included; one longer item makes a batch of its own
  int64_t pool = 4096;       // items (in shuffled order) that are sorted by length together
  bool shuffle = true;       // false: one pool, shortest batch first
  uint64_t seed = 0;
};

// Error(kConfig) for impossible limits.
void check_buckets(const BucketOptions& options);
void add_buckets(const BucketOptions& options, Fingerprint& fingerprint);

// Every item (lengths[i] ≥ 0) in exactly one batch; a function of the arguments. Shuffling comes first, so that
// neighbours change from epoch to epoch; sorting within a pool then groups lengths, and the pools' batches are
// shuffled.
std::vector<std::vector<int64_t>> bucket_batches(const std::vector<int64_t>& lengths, const BucketOptions& options,
                                                 int64_t epoch);

}  // namespace fovea
