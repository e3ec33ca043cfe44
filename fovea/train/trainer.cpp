// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/trainer.h"

#include "fovea/base/check.h"
#include "fovea/models/pretrained.h"
#include "fovea/train/run.h"

namespace fovea {
namespace {

void check_fit(const TrainParts& parts, Dataset& data, const char* which) {
  const auto check = [&](const char* side, int64_t needed, int64_t held) {
    FOVEA_CHECK_CONFIG(needed <= held, "the ", which, " data has ", side, "token ", needed - 1,
                       ", the model's vocabulary has ", held, " tokens; the tokenizer does not fit the model");
  };
  check("", data.vocabulary_needed(), parts.model->vocab_size());
  check("source ", data.source_vocabulary_needed(), parts.model->source_vocab_size());
  FOVEA_CHECK_CONFIG(data.longest_row() <= parts.model->max_positions(), "the ", which, " data has rows of ",
                     data.longest_row(), " tokens, the model has ", parts.model->max_positions(),
                     " positions; make data.context smaller or give the model more positions");
}

}  // namespace

std::string_view name_of(TrainEnd end) {
  switch (end) {
    case TrainEnd::kFinished:
      return "finished";
    case TrainEnd::kEarlyStop:
      return "early stop";
    case TrainEnd::kTimeUp:
      return "time up";
    case TrainEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

Trainer::Trainer(TrainParts parts, TrainOptions options) : parts_(std::move(parts)), options_(std::move(options)) {
  FOVEA_CHECK(parts_.model != nullptr, "the model is null");
  FOVEA_CHECK(parts_.train != nullptr, "the training data is null");
  options_.check();
  if (parts_.tokenizer) check_tokenizer_fits(*parts_.model, *parts_.tokenizer, "training");
  check_fit(parts_, *parts_.train, "training");
  if (parts_.validation) check_fit(parts_, *parts_.validation, "validation");
}

void Trainer::observe(TrainObserver* observer) { observer_ = observer; }
void Trainer::stop_on(const std::atomic<bool>* flag) { stop_ = flag; }

TrainResult Trainer::run() {
  static TrainObserver nobody;
  TrainRun run(parts_, options_, observer_ ? *observer_ : nobody, stop_);
  return run.go();
}

}  // namespace fovea
