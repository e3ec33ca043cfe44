// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/buckets.h"

#include <algorithm>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/data/random.h"
#include "fovea/data/sampler.h"

namespace fovea {
namespace {

// The batches' order is drawn apart from the items' order, which uses the epoch's number as its stream.
constexpr uint64_t kBatchOrderStream = uint64_t{1} << 61;

void check_buckets(const BucketOptions& options) {
  FOVEA_CHECK_CONFIG(options.batch_size >= 0 && options.batch_tokens >= 0, "batch_size (", options.batch_size,
                     ") and batch_tokens (", options.batch_tokens, ") must not be negative");
  FOVEA_CHECK_CONFIG(options.batch_size + options.batch_tokens > 0,
                     "batch_size and batch_tokens are both 0; one must say how large a batch is");
  FOVEA_CHECK_CONFIG(options.pool >= 1, "pool is ", options.pool, ", must be at least 1");
}

}  // namespace

std::vector<std::vector<int64_t>> bucket_batches(const std::vector<int64_t>& lengths, const BucketOptions& options,
                                                 int64_t epoch) {
  check_buckets(options);
  std::vector<std::vector<int64_t>> batches;
  if (lengths.empty()) return batches;
  std::vector<int64_t> items = Sampler(int64_t(lengths.size()), options.seed, options.shuffle).order(epoch);
  const auto length = [&](int64_t item) { return lengths[size_t(item)]; };
  const int64_t total = int64_t(items.size()), pool = options.shuffle ? options.pool : total;
  for (int64_t begin = 0; begin < total; begin += pool) {
    const int64_t end = std::min(begin + pool, total);
    std::stable_sort(items.begin() + begin, items.begin() + end,
                     [&](int64_t a, int64_t b) { return length(a) < length(b); });
    int64_t rows = 0;  // of the batch under construction; lengths rise, so the newest item is its longest
    for (int64_t i = begin; i < end; ++i) {
      const int64_t item = items[size_t(i)];
      const bool too_many = options.batch_size > 0 && rows == options.batch_size;
      const bool too_long = options.batch_tokens > 0 && (rows + 1) * length(item) > options.batch_tokens;
      if (rows == 0 || too_many || too_long) {
        batches.emplace_back();
        rows = 0;
      }
      batches.back().push_back(item);
      ++rows;
    }
  }
  if (!options.shuffle) return batches;
  const auto order = random_permutation(int64_t(batches.size()), options.seed, kBatchOrderStream + uint64_t(epoch));
  std::vector<std::vector<int64_t>> out(batches.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::move(batches[size_t(order[i])]);
  return out;
}

BucketedDataset::BucketedDataset(const BucketOptions& options) : options_(options) { check_buckets(options); }

const std::vector<std::vector<int64_t>>& BucketedDataset::plan(int64_t epoch) {
  if (plan_epoch_ != epoch) {
    plan_ = bucket_batches(lengths_, options_, epoch);
    plan_epoch_ = epoch;
  }
  return plan_;
}

const std::vector<int64_t>& BucketedDataset::items(int64_t epoch, int64_t index) {
  FOVEA_CHECK(index >= 0 && index < batch_count(epoch), "batch ", index, " of ", batch_count(epoch));
  return plan(epoch)[size_t(index)];
}

int64_t BucketedDataset::longest_row() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

Fingerprint BucketedDataset::buckets_fingerprint() const {
  Fingerprint out;
  const auto& o = options_;
  for (const int64_t value : {o.batch_size, o.batch_tokens, o.pool, int64_t(o.shuffle)}) out.add(uint64_t(value));
  out.add(o.seed);
  return out;
}

}  // namespace fovea
