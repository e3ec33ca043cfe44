// From a corpus to batches, for each kind of data. Internal to train/; use parts.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fovea/data/windows.h"
#include "fovea/train/corpus.h"
#include "fovea/train/parts.h"

namespace fovea {

struct Cut {
  std::string kind;
  int64_t context = 0;  // 0: as many tokens as the model has positions
  int64_t batch_size = 0, batch_tokens = 0;
  WindowOrder windows = WindowOrder::kConsecutive;
  bool shuffle = false;
  bool drop_longer = false;
  uint64_t seed = 0;

  BucketOptions buckets() const {
    return {.batch_size = batch_size, .batch_tokens = batch_tokens, .shuffle = shuffle, .seed = seed};
  }
};

// Error(kConfig) where the kind is not for such a model.
MeasuredData cut_corpus(const Corpus& corpus, const ModelImpl& model, const Tokenizer& tokenizer, Cut cut);

// The kind for models that see: from a recipe's folders and files to all that a trainer needs.
TrainParts load_image_parts(const TrainOptions& options);

// The kinds for models that read.
std::shared_ptr<Dataset> cut_labels(const Corpus& corpus, const EncoderModelImpl& model, const Tokenizer& tokenizer,
                                    const Cut& cut);
std::shared_ptr<Dataset> cut_masked(const Corpus& corpus, const Tokenizer& tokenizer, const Cut& cut);

}  // namespace fovea
