// One call of Trainer::run(): the loop and all it carries along. Internal to train/; use trainer.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "fovea/train/checkpoint.h"
#include "fovea/train/curve.h"
#include "fovea/train/journal.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/trainer.h"

namespace fovea {

class TrainRun {
 public:
  TrainRun(const TrainParts& parts, const TrainOptions& options, TrainObserver& observer,
           const std::atomic<bool>* stop);
  TrainResult go();

 private:
  void begin_fresh();
  void write_config() const;
  void resume();
  void start();
  TrainResult loop();
  std::optional<TrainEnd> reason_to_end() const;
  bool validation_due(bool at_end) const;
  bool validate();  // false: asked to stop before it was done
  void step();
  void report(StepReport report, int64_t tokens);
  void save();
  void record(const nlohmann::json& line);
  TrainResult finish(TrainEnd end);

  bool stop_wanted() const { return stop_ && stop_->load(std::memory_order_relaxed); }
  double seconds_now() const;  // of all runs together
  std::optional<double> bits_per_character(double loss) const;
  CheckpointParts checkpoint_parts();

  const TrainParts& parts_;
  const TrainOptions& options_;
  TrainObserver& observer_;
  const std::atomic<bool>* stop_;

  RunFolder folder_;
  Journal journal_;
  AdamW optimizer_;
  Loader loader_;
  LossCurve curve_;
  TrainState state_;
  int64_t saved_step_ = -1;
  bool new_best_ = false;

  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_, last_step_;
  double seconds_before_ = 0;  // of earlier runs
  int64_t first_step_ = 0;
  double recent_tokens_ = 0, recent_seconds_ = 0;  // decaying sums, for the rate shown
};

}  // namespace fovea
