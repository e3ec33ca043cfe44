// Masked words (Devlin et al. 2019, section 3.1): some tokens of a text are hidden, the labels say which they were.
//
// Of a row's ordinary tokens 15 % are chosen, at least one: 80 % of these become the mask, 10 % another ordinary token,
// 10 % stay. Tokens that are no ordinary ones (those around the text, padding, the mask itself) are never chosen and
// never put in. Which tokens are chosen is a function of (seed, epoch, row): new in every epoch, the same in a run that
// was stopped and goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/buckets.h"
#include "fovea/data/dataset.h"

namespace fovea {

struct MaskingOptions {
  BucketOptions buckets;  // its seed is that of the choice too
  double part = 0.15;     // of the ordinary tokens that are chosen
  TokenId mask = 0;
  TokenId pad = 0;
  std::vector<TokenId> ordinary;  // what may be chosen, and be put in
};

// Batches have ids and labels [B, T] and lengths [B].
class MaskedTexts : public BucketedDataset {
 public:
  // Each text as tokens, with those around it. A text without an ordinary token is left out; Error(kInput) naming
  // `source` where none is left.
  MaskedTexts(std::vector<std::vector<TokenId>> texts, MaskingOptions options, const std::string& source = "text");

  Batch batch(int64_t epoch, int64_t index) override;
  int64_t vocabulary_needed() const override;
  int64_t token_count() override;  // that are chosen in an epoch: as many in each
  uint64_t fingerprint() const override;

 private:
  bool is_ordinary(TokenId token) const { return size_t(token) < ordinary_.size() && ordinary_[size_t(token)]; }
  std::vector<size_t> ordinary_places(const std::vector<TokenId>& text) const;
  int64_t chosen_count(size_t places) const;
  // Changes some tokens; the labels, kIgnore elsewhere.
  std::vector<TokenId> hide(std::vector<TokenId>& text, int64_t epoch, int64_t item) const;

  std::vector<std::vector<TokenId>> texts_;
  MaskingOptions options_;
  std::vector<bool> ordinary_;  // by id
};

}  // namespace fovea
