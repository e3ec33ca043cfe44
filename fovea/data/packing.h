// Packed texts: several short texts share a row, each with positions of its own, and never see each other (the model
// masks by `Batch::documents`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/sampler.h"

namespace fovea {

struct PackingOptions {
  int64_t context = 128;   // T, tokens in a row
  int64_t batch_size = 8;  // B, rows in a batch; the last batch of an epoch may have fewer
  bool shuffle = true;
  uint64_t seed = 0;
};

// One piece of a text: its inputs are text[begin … begin + length), its labels one further.
struct PackedPiece {
  int64_t text, begin, length;
};
using PackedRow = std::vector<PackedPiece>;

// Batches have ids, labels, documents, positions [B, T] and lengths [B].
class PackedTexts : public Dataset {
 public:
  // Each text as tokens, the ones that open and close it included. A text of fewer than two tokens has nothing to
  // predict: it is left out; Error(kInput) where none is left. A text longer than a row is cut into pieces (each begins
  // anew).
  PackedTexts(std::vector<std::vector<TokenId>> texts, const PackingOptions& options,
              const std::string& source = "text");

  int64_t batch_count(int64_t epoch) override;
  Batch batch(int64_t epoch, int64_t index) override;
  int64_t longest_row() const override { return options_.context; }
  int64_t vocabulary_needed() const override;
  int64_t token_count() override;
  uint64_t fingerprint() const override;

 private:
  const std::vector<PackedRow>& plan(int64_t epoch);
  void fill_row(const PackedRow& row, int64_t b, Batch& batch) const;

  std::vector<std::vector<TokenId>> texts_;
  PackingOptions options_;
  std::vector<PackedPiece> pieces_;
  Sampler sampler_;
  std::vector<PackedRow> plan_;  // rows of epoch plan_epoch_
  int64_t plan_epoch_ = -1;
};

}  // namespace fovea
