// Where batches come from: a dataset maps (epoch, index) to a batch, a loader walks through it and remembers two
// integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/data/batch.h"

namespace fovea {

// One token id as datasets store it: half the memory of LibTorch's int64, which batches use.
using TokenId = int32_t;

class Dataset {
 public:
  virtual ~Dataset() = default;
  // At least 1; may differ from epoch to epoch.
  virtual int64_t batch_count(int64_t epoch) = 0;
  // Batch number `index` of `epoch`: a function of these two, the data and the options (seed among them).
  virtual Batch batch(int64_t epoch, int64_t index) = 0;
  // The longest row that a batch can have, on the source or target side: what a model must have positions for.
  virtual int64_t longest_row() const = 0;
  // The greatest token id plus one: what a model's vocabulary must hold.
  virtual int64_t vocabulary_needed() const = 0;
  virtual int64_t source_vocabulary_needed() const { return 0; }  // the same of what an encoder-decoder's encoder reads
  // Labels that count in an epoch (epoch 0 where it varies).
  virtual int64_t token_count() = 0;
  // Changes when tokens, options or seed change: a resumed run must see the data it was trained on.
  virtual uint64_t fingerprint() const = 0;
};

// Where a loader stands: written into checkpoints.
struct LoaderState {
  int64_t epoch = 0;
  int64_t position = 0;  // the batch that comes next
  void visit(FieldVisitor& visitor) {
    visitor.field("epoch", epoch);
    visitor.field("position", position);
  }
};

// An endless walk: epoch after epoch. In a range-for it gives the rest of the current epoch.
class Loader {
 public:
  explicit Loader(std::shared_ptr<Dataset> dataset, LoaderState state = {});

  Batch next();
  const LoaderState& state() const { return state_; }
  // Error(kInput) where the dataset has no such place: the state belongs to other data.
  void restore(const LoaderState& state);
  Dataset& dataset() const { return *dataset_; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    friend class Loader;
    Iterator() = default;
    explicit Iterator(Loader& loader) : loader_(&loader), epoch_(loader.state_.epoch) { ++*this; }
    Loader* loader_ = nullptr;  // null: past the end
    int64_t epoch_ = 0;
    Batch batch_;
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() { return {}; }

 private:
  std::shared_ptr<Dataset> dataset_;
  LoaderState state_;
};

// A running hash for Dataset::fingerprint().
class Fingerprint {
 public:
  void add(uint64_t value);
  void add(const std::vector<TokenId>& tokens);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace fovea
