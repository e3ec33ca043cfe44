// Source and target texts: the table they come from, and batches for teacher forcing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/buckets.h"
#include "fovea/data/dataset.h"

namespace fovea {

struct TextPair {
  std::string source, target;
  std::string where;  // "pairs.tsv:12", for errors
};

// pairs.tsv: UTF-8, a pair a line, `source<TAB>target`, no header, no quoting; empty lines are skipped. Error(kInput)
// naming file and line for a missing or empty column and for a third one, and for a file without pairs.
std::vector<TextPair> read_pairs(const std::filesystem::path& path);

struct TokenPair {
  std::vector<TokenId> source, target;  // without opening and closing tokens
};

struct PairOptions {
  BucketOptions buckets;  // a pair's length is that of its longer side, as the model sees it
  TokenId begin = 0;      // opens the decoder's input
  TokenId end = 0;        // closes the labels
  TokenId pad = 0;        // fills the target's side; never counts
  // The same of the source's side; unset: as above. Another vocabulary may have other ids.
  std::optional<TokenId> source_end, source_pad;
};

// Batches have ids [B, S] (source, its end), lengths, target_ids [B, U] (`begin`, target), target_lengths and labels
// [B, U] (target, `end`).
class TextPairs : public BucketedDataset {
 public:
  TextPairs(std::vector<TokenPair> pairs, const PairOptions& options, const std::string& source = "pairs");

  Batch batch(int64_t epoch, int64_t index) override;
  int64_t vocabulary_needed() const override;
  int64_t source_vocabulary_needed() const override;
  int64_t token_count() override;
  uint64_t fingerprint() const override;

 private:
  std::vector<TokenPair> pairs_;
  PairOptions options_;
};

}  // namespace fovea
