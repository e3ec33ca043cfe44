// Texts and their classes: the table they come from, and batches for a classifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/data/buckets.h"
#include "fovea/data/dataset.h"

namespace fovea {

struct LabelledText {
  std::string label, text;
  std::string second;  // of a pair of texts; empty: there is none
  std::string where;   // "labels.tsv:12", for errors
};

// Which column of a table holds the label.
enum class LabelColumn { kFirst, kLast };
// "first", "last"; Error(kConfig) otherwise.
LabelColumn label_column(const std::string& name);

// labels.tsv: UTF-8, a text a line, `label<TAB>text` or `label<TAB>text<TAB>text` (or the label last), no header, no
// quoting; empty lines are skipped. Error(kInput) naming file and line for a missing or empty column, for one too many,
// for a line with another number of columns than the first, for a label with a blank at its begin or end; naming the
// file where it holds no texts.
std::vector<LabelledText> read_labels(const std::filesystem::path& path, LabelColumn column = LabelColumn::kFirst);

// The different labels, sorted by their bytes. Error(kInput) naming `source` where there is only one, or where more
// than two texts have a label each.
std::vector<std::string> class_names(const std::vector<LabelledText>& texts, const std::string& source);

struct LabelledTokens {
  std::vector<TokenId> ids, type_ids;  // with what the tokenizer puts around them; no types: all 0
  int64_t label = 0;                   // the class's number
};

struct LabelledOptions {
  BucketOptions buckets;
  TokenId pad = 0;
};

// Batches have ids [B, T], lengths [B], labels [B] and, where a row has types, type_ids [B, T].
class LabelledTexts : public BucketedDataset {
 public:
  LabelledTexts(std::vector<LabelledTokens> texts, const LabelledOptions& options, const std::string& source = "texts");

  Batch batch(int64_t epoch, int64_t index) override;
  int64_t vocabulary_needed() const override;
  int64_t token_count() override { return int64_t(texts_.size()); }  // labels: one a text
  uint64_t fingerprint() const override;

 private:
  std::vector<LabelledTokens> texts_;
  LabelledOptions options_;
};

}  // namespace fovea
