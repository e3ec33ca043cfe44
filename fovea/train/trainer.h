// Trains a model: accumulation, clipping, schedule, validation, checkpoints, journal, exact resume.
//
//   Trainer trainer({model, tokenizer, train, validation}, TrainOptions::from_toml("configs/kjv.toml"));
//   TrainResult result = trainer.run();
//
// Same data, seed and number of threads give the same losses bit for bit, whether a run was stopped in between (also by
// kill -9) or not. The library prints nothing: progress goes to an observer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "fovea/data/dataset.h"
#include "fovea/data/image_processor.h"
#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"
#include "fovea/train/options.h"

namespace fovea {

struct TrainParts {
  Model model;
  std::optional<Tokenizer> tokenizer;  // saved with every checkpoint
  std::shared_ptr<Dataset> train;
  std::shared_ptr<Dataset> validation;    // null: none; the last checkpoint is then the best
  double characters_per_token = 0;        // of the validation text; 0: losses are not told in bits per character
  std::optional<ImageProcessor> prepare;  // of images; saved with every checkpoint
};

enum class TrainEnd {
  kFinished,     // all steps done
  kEarlyStop,    // `patience` validations without a new best
  kTimeUp,       // max_minutes
  kInterrupted,  // asked to stop; saved, may be resumed
};
std::string_view name_of(TrainEnd end);  // "finished", "early stop", "time up", "interrupted"

struct StepReport {
  int64_t step, steps;  // updates done, and wanted
  double loss;          // nats per token, of this step, label smoothing included
  double learning_rate;
  double grad_norm;  // before clipping
  int64_t tokens;    // learned from since the beginning
  double seconds;    // since the beginning, earlier runs included
  double tokens_per_second;
  double seconds_left;
};

struct ValidationReport {
  int64_t step;
  double loss;  // nats per token
  std::optional<double> bits_per_character;
  bool best;
  double seconds;  // that it took
};

struct TrainResult {
  TrainEnd end = TrainEnd::kFinished;
  int64_t step = 0;
  int64_t tokens = 0;
  double seconds = 0;
  int64_t best_step = -1;  // −1: there was no validation
  double best_loss = 0;
  std::optional<double> best_bits_per_character;
};

// Told what happens, on the training thread; an exception ends the run like any other error.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void started(int64_t /*step*/, int64_t /*steps*/) {}  // step > 0: resumed
  virtual void stepped(const StepReport&) {}
  virtual void validated(const ValidationReport&) {}
  virtual void saved(const std::filesystem::path& /*checkpoint*/, bool /*best*/) {}
};

class Trainer {
 public:
  // Error(kConfig) or Error(kInput) for parts that do not fit together: tokens outside the model's vocabulary, rows
  // longer than its positions.
  Trainer(TrainParts parts, TrainOptions options);

  void observe(TrainObserver* observer);  // not owned; null: nobody
  // Asks to save and stop when `flag` becomes true: for a signal handler, which may only set it.
  void stop_on(const std::atomic<bool>* flag);

  // Trains until the end, going on from options.train.out where that holds the same run. Seeds LibTorch's generator.
  // Error(kDiverged) naming the step for a loss or gradient that is not finite: the last good checkpoint stays, the
  // model is left as before that step. Error(kSystem) where the folder cannot be written; Error(kConfig) where it holds
  // another run; Error(kInput) where the training data is not the run's.
  TrainResult run();

 private:
  TrainParts parts_;
  TrainOptions options_;
  TrainObserver* observer_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace fovea
