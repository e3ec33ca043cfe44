// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/run.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/log.h"
#include "fovea/io/files.h"
#include "fovea/io/toml.h"
#include "fovea/loss/evaluate.h"
#include "fovea/train/schedule.h"
#include "fovea/train/train_step.h"

namespace fovea {
namespace {

std::string hexadecimal(uint64_t value) {
  char out[20];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
  return out;
}

AdamW make_optimizer(const Model& model, const TrainOptions& options) {
  const auto parameters = distinct_parameters(*model);
  freeze_parameters(parameters, options.train.freeze);
  return AdamW(parameters, options.optim);
}

double milliseconds(double seconds) { return std::round(seconds * 1000) / 1000; }

}  // namespace

TrainRun::TrainRun(const TrainParts& parts, const TrainOptions& options, TrainObserver& observer,
                   const std::atomic<bool>* stop)
    : parts_(parts),
      options_(options),
      observer_(observer),
      stop_(stop),
      folder_(options.train.out),
      journal_(folder_.journal()),
      optimizer_(make_optimizer(parts.model, options)),
      loader_(parts.train),
      curve_(run_name(options.train.out)) {}

TrainResult TrainRun::go() {
  begin_ = last_step_ = Clock::now();
  state_.data_fingerprint = hexadecimal(parts_.train->fingerprint());
  state_.validation_fingerprint = parts_.validation ? hexadecimal(parts_.validation->fingerprint()) : "";
  if (options_.train.existing == "resume" && folder_.has_checkpoint()) {
    resume();
  } else {
    begin_fresh();
  }
  parts_.model->train();
  start();
  try {
    return loop();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kDiverged) record({{"event", "diverged"}, {"step", state_.step + 1}});
    throw;
  }
}

TrainResult TrainRun::loop() {
  for (;;) {
    std::optional<TrainEnd> end = reason_to_end();
    if (validation_due(end.has_value())) {
      if (!validate()) return finish(TrainEnd::kInterrupted);  // repeated as a whole after the resume
      if (!end) end = reason_to_end();
    }
    if (!end && stop_wanted()) end = TrainEnd::kInterrupted;
    const int64_t every = options_.train.checkpoint_every;
    if (!end && (new_best_ || (every > 0 && state_.step > 0 && state_.step % every == 0))) save();
    if (end) return finish(*end);
    step();
  }
}

void TrainRun::begin_fresh() {
  if (options_.train.existing == "replace") folder_.clear();
  journal_.truncate(0);
  write_config();
  at::manual_seed(uint64_t(options_.train.seed));
  state_.threads = at::get_num_threads();
}

// What goes on from this folder must not give it up.
void TrainRun::write_config() const {
  TrainOptions kept = options_;
  kept.train.existing = "resume";
  write_file(folder_.config(), dump_toml(kept));
}

void TrainRun::resume() {
  const std::string fingerprint = state_.data_fingerprint, validation = state_.validation_fingerprint;
  TrainOptions recorded;
  TomlConfig::read(folder_.config()).fill(recorded);
  std::string keys;
  for (const std::string& key : differing_keys(recorded, options_)) keys += (keys.empty() ? "" : ", ") + key;
  FOVEA_CHECK_CONFIG(keys.empty(), folder_.path().native(), " holds a run with another recipe (", keys,
                     "); name another train.out, or set train.existing=replace to give that run up");
  state_ = read_state(folder_.last());
  FOVEA_CHECK_INPUT(state_.data_fingerprint == fingerprint, folder_.path().native(),
                    ": the training data is not the one this run began with; name another train.out");
  FOVEA_CHECK_INPUT(state_.validation_fingerprint == validation || state_.validation_fingerprint.empty(),
                    folder_.path().native(),
                    ": the validation data is not the one this run began with, so losses cannot be compared; name "
                    "another train.out");
  loader_.restore(state_.data);
  read_checkpoint(folder_.last(), checkpoint_parts());
  folder_.repair(state_.best_step);
  saved_step_ = state_.step;
  seconds_before_ = state_.seconds;
  if (reason_to_end() && !validation_due(true)) return;  // nothing is left to do: the folder stays as it is
  journal_.truncate(state_.journal_bytes);
  for (const nlohmann::json& line : read_journal(folder_.journal())) curve_.add(line);
  write_config();
  if (state_.threads != at::get_num_threads())
    log("train", detail::concat("the run used ", state_.threads, " threads, now ", at::get_num_threads(),
                                ": losses will differ in their last bits"));
  state_.threads = at::get_num_threads();
}

void TrainRun::start() {
  first_step_ = state_.step;
  if (!reason_to_end())
    record({{"event", "start"},
            {"step", state_.step},
            {"steps", options_.train.steps},
            {"model", parts_.model->type()},
            {"parameters", parts_.model->parameter_count()},
            {"threads", state_.threads}});
  observer_.started(state_.step, options_.train.steps);
}

std::optional<TrainEnd> TrainRun::reason_to_end() const {
  const RunOptions& limits = options_.train;
  if (limits.patience > 0 && state_.validations_without_best >= limits.patience) return TrainEnd::kEarlyStop;
  if (state_.step >= limits.steps) return TrainEnd::kFinished;
  if (limits.max_minutes > 0 && seconds_now() >= 60 * limits.max_minutes) return TrainEnd::kTimeUp;
  return std::nullopt;
}

bool TrainRun::validation_due(bool at_end) const {
  if (!parts_.validation || state_.step == 0 || state_.validated_step == state_.step) return false;
  const int64_t every = options_.train.validate_every;
  return at_end || (every > 0 && state_.step % every == 0);
}

bool TrainRun::validate() {
  const auto begin = Clock::now();
  const auto result = evaluate(*parts_.model, *parts_.validation, [this] { return stop_wanted(); });
  if (!result) return false;
  FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(result->loss), "the validation loss is ", std::abs(result->loss),
                   " at step ", state_.step);
  new_best_ = state_.best_step < 0 || result->loss < state_.best_loss;
  if (new_best_) {
    state_.best_loss = result->loss;
    state_.best_step = state_.step;
    state_.validations_without_best = 0;
  } else {
    ++state_.validations_without_best;
  }
  state_.validated_step = state_.step;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const auto bits = bits_per_character(result->loss);
  nlohmann::json line = {{"event", "validation"}, {"step", state_.step},      {"loss", result->loss},
                         {"best", new_best_},     {"tokens", result->tokens}, {"seconds", milliseconds(seconds)}};
  if (bits) line["bits_per_character"] = *bits;
  record(line);
  write_file(folder_.curve(), curve_.svg());
  observer_.validated({state_.step, result->loss, bits, new_best_, seconds});
  last_step_ = Clock::now();  // the rate shown is the training's
  return true;
}

void TrainRun::step() {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options_.optim.accumulate; ++i) batches.push_back(loader_.next());
  const double rate =
      options_.optim.learning_rate * schedule_factor(options_.schedule, state_.step, options_.train.steps);
  const StepSettings settings{state_.step + 1, rate, options_.optim.label_smoothing};
  const StepOutcome outcome = train_step(*parts_.model, batches, optimizer_, settings);
  ++state_.step;
  state_.tokens += outcome.tokens;
  state_.data = loader_.state();
  const double seconds = seconds_now();
  if (state_.step % options_.train.journal_every == 0)
    record({{"step", state_.step},
            {"loss", outcome.loss},
            {"lr", rate},
            {"tokens", state_.tokens},
            {"grad_norm", outcome.grad_norm},
            {"seconds", milliseconds(seconds)}});
  report({state_.step, options_.train.steps, outcome.loss, rate, outcome.grad_norm, state_.tokens, seconds, 0, 0},
         outcome.tokens);
}

// Adds the rate and the time left.
void TrainRun::report(StepReport report, int64_t tokens) {
  const auto now = Clock::now();
  const double took = std::chrono::duration<double>(now - last_step_).count();
  last_step_ = now;
  const double fade = std::exp(-took / 2);  // a time constant of two seconds
  recent_tokens_ = recent_tokens_ * fade + double(tokens);
  recent_seconds_ = recent_seconds_ * fade + took;
  report.tokens_per_second = recent_tokens_ / std::max(recent_seconds_, 1e-9);
  const double per_step = (report.seconds - seconds_before_) / double(report.step - first_step_);
  report.seconds_left = per_step * double(report.steps - report.step);
  const double limit = 60 * options_.train.max_minutes;
  if (limit > 0) report.seconds_left = std::min(report.seconds_left, std::max(0.0, limit - report.seconds));
  observer_.stepped(report);
}

void TrainRun::save() {
  if (saved_step_ == state_.step && !new_best_) return;
  journal_.sync();
  state_.journal_bytes = journal_.size();
  state_.seconds = seconds_now();
  const bool best = new_best_ || !parts_.validation;
  folder_.save(state_.step, best,
               [this](const std::filesystem::path& folder) { write_checkpoint(folder, state_, checkpoint_parts()); });
  saved_step_ = state_.step;
  new_best_ = false;
  observer_.saved(folder_.checkpoint(state_.step), best);
  last_step_ = Clock::now();
}

void TrainRun::record(const nlohmann::json& line) {
  journal_.append(line);
  curve_.add(line);
}

TrainResult TrainRun::finish(TrainEnd end) {
  if (saved_step_ != state_.step || new_best_) {
    save();
    record({{"event", "end"}, {"step", state_.step}, {"reason", name_of(end)}});
    write_file(folder_.curve(), curve_.svg());
  }
  TrainResult out;
  out.end = end;
  out.step = state_.step;
  out.tokens = state_.tokens;
  out.seconds = seconds_now();
  out.best_step = state_.best_step;
  out.best_loss = state_.best_loss;
  if (state_.best_step >= 0) out.best_bits_per_character = bits_per_character(state_.best_loss);
  return out;
}

double TrainRun::seconds_now() const {
  return seconds_before_ + std::chrono::duration<double>(Clock::now() - begin_).count();
}

std::optional<double> TrainRun::bits_per_character(double loss) const {
  if (parts_.characters_per_token <= 0) return std::nullopt;
  return Evaluation{loss, 1}.bits_per_character(parts_.characters_per_token);
}

CheckpointParts TrainRun::checkpoint_parts() {
  return {parts_.model, parts_.tokenizer ? &*parts_.tokenizer : nullptr, &optimizer_,
          parts_.prepare ? &*parts_.prepare : nullptr};
}

}  // namespace fovea
