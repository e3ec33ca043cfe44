// What a recipe's files hold, before tokens. Internal to train/; use parts.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fovea/data/labelled_images.h"
#include "fovea/data/labels.h"
#include "fovea/data/pairs.h"

namespace fovea {

struct Corpus {
  std::string text;  // kinds text, lines, masked
  std::vector<TextPair> pairs;
  std::vector<LabelledText> labelled;
  std::vector<LabelledImage> images;
  std::string source;  // names it in errors

  bool empty() const { return text.empty() && pairs.empty() && labelled.empty() && images.empty(); }
  // All texts, a line each.
  std::string joined() const;
};

// `kind` as in DataOptions, `what` as in read_texts(). Error(kInput) naming file and line for what the kind does not
// allow.
Corpus read_corpus(const std::string& kind, const std::vector<std::string>& files, const std::string& what,
                   LabelColumn labels = LabelColumn::kFirst);

// Cuts the validation off: of a text its end, of pairs, labelled texts and images a part drawn always in the same way.
// Error(kInput) where either part would be empty.
Corpus cut_validation(Corpus& train, double fraction);

// Kinds that a model learns by reading: "labels", "masked".
bool is_for_readers(const std::string& kind);

}  // namespace fovea
