// A training recipe: every setting with its default, listed once. TOML files, dotted overrides and --dump-config visit
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/models/registry.h"

namespace fovea {

struct DataOptions {
  // text (one stream), lines (a text a line, packed), pairs (source<TAB>target); for models that read: labels
  // (label<TAB>text), masked (a text a line, some words hidden); for models that see: images
  std::string kind = "text";
  std::vector<std::string> train;       // files, read one after another; images: folders of classes, or IDX files
  std::vector<std::string> validation;  // files; empty: see validation_fraction
  double validation_fraction = 0;       // of a text its end, of pairs, labels and images a part drawn; 0: no validation
  int64_t context = 0;                  // tokens in a row; 0: as many as the model has positions
  // text: shuffled (each token once an epoch), random, or streams (rows go on from batch to batch, for memory)
  std::string windows = "shuffled";
  bool drop_longer = false;            // pairs and labelled texts longer than `context`: left out, no error
  bool cut_longer = false;             // labelled texts longer than `context` are cut, here and wherever the model is used
  std::string label_column = "first";  // labels: first, last (text<TAB>label)
  bool resize = false;                 // images of another size than the model's: resized, no error
  double flip = 0;                     // images, in training: see AugmentationOptions (data/augmentation.h)
  int64_t shift = 0;
  double erase = 0;
  void visit(FieldVisitor& visitor);
};

struct TokenizerOptions {
  std::string type = "characters";  // characters, bpe (byte-level), words (both trained here), file
  std::string path;                 // file: a tokenizer.json or its folder
  int64_t vocab_size = 8000;        // bpe, words
  std::string isolate;              // bpe: see BpeTrainingOptions (text/training.h)
  void visit(FieldVisitor& visitor);
};

// The model's name and its own fields (models/registry.h).
struct ModelOptions {
  std::string type;
  std::shared_ptr<ModelRecipe> recipe;  // null where `type` is empty; shared by copies
  void visit(FieldVisitor& visitor);
};

struct OptimOptions {
  double learning_rate = 1e-3;  // peak; the schedule's factor multiplies it
  double weight_decay = 0.1;    // decoupled (Loshchilov & Hutter 2019); see AdamW for what it spares
  double beta1 = 0.9;
  double beta2 = 0.99;
  double eps = 1e-8;
  double clip = 1;             // largest global gradient norm; 0: none
  int64_t batch_size = 8;      // rows
  int64_t batch_tokens = 0;    // pairs, labels, masked: padded tokens at most (a longer row goes alone); 0: no limit
  int64_t accumulate = 1;      // batches a step; averaged by token, as if they were one
  double label_smoothing = 0;  // in training only
  std::vector<std::string> no_decay = {"*embedding*",
                                       "*position*"};  // parameter names, beside all of fewer than two dimensions
  void visit(FieldVisitor& visitor);
};

struct ScheduleOptions {
  std::string name = "cosine";  // constant, linear, cosine, inverse_sqrt
  int64_t warmup = 0;           // steps of linear rise
  double min_ratio = 0;         // floor, as a part of the peak
  void visit(FieldVisitor& visitor);
};

struct RunOptions {
  std::string out;  // the run's folder
  // A model folder to go on from; [model] and [tokenizer] are then not used. An encoder gets a new head where its own
  // is not what the data asks for.
  std::string init;
  std::string existing = "resume";  // a run that stands at `out`: resume, replace
  int64_t steps = 1000;
  double max_minutes = 0;            // stop earlier when they are over; 0: no limit. The schedule stays one of steps
  int64_t validate_every = 250;      // steps; 0: only at the end
  int64_t validate_batch_size = 32;  // rows (all but pairs)
  int64_t patience = 0;              // stop after so many validations without a new best; 0: never
  int64_t checkpoint_every = 1000;   // steps, beside those with a new best and the last; 0: only those
  int64_t journal_every = 1;         // steps
  int64_t seed = 1;
  std::vector<std::string> freeze;  // parameter names that do not learn, as globs
  void visit(FieldVisitor& visitor);
};

struct TrainOptions {
  DataOptions data;
  TokenizerOptions tokenizer;
  TokenizerOptions source_tokenizer{.type = ""};  // pairs: the sources' own; without a type: one for both sides
  ModelOptions model;
  OptimOptions optim;
  ScheduleOptions schedule;
  RunOptions train;

  void visit(FieldVisitor& visitor);
  // Error(kConfig) for a value out of range, naming its dotted key.
  void check() const;
  // A recipe and overrides such as "optim.learning_rate=3e-4"; checked.
  static TrainOptions from_toml(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
};

// Dotted keys in which the two differ and that decide a run's numbers: not where it is written, how long it may last
// and how often it looks at itself.
std::vector<std::string> differing_keys(const TrainOptions& a, const TrainOptions& b);

}  // namespace fovea
