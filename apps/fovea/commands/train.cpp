// `fovea train CONFIG [key=value …]`: trains a model by a recipe; stops and goes on without losing a bit.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/dry_run.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/toml.h"
#include "fovea/train/parts.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/trainer.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

std::string bits_text(double bits) { return fixed(bits, 2) + " bits/char"; }

// What a person sees of a run.
class Watcher : public TrainObserver {
 public:
  Watcher(const TrainOptions& options, bool quiet)
      : options_(options), progress_(quiet), unit_(unit_of(options.data.kind)) {
    if (unit_ == "tokens") unit_ = "tok";
  }

  void started(int64_t step, int64_t steps) override {
    if (step >= steps)
      progress_.note(detail::concat(options_.train.out, " has ", step, " steps, nothing is left of ", steps));
    else if (step > 0)
      progress_.note(detail::concat("going on from step ", step, " of ", options_.train.out));
  }

  void stepped(const StepReport& report) override {
    // One step's loss jumps; its running mean shows the way.
    mean_loss_ += (report.loss - mean_loss_) / double(std::min<int64_t>(++steps_, 20));
    ProgressState state;
    state.status = "step " + std::string(6 - std::min<size_t>(6, std::to_string(report.step).size()), ' ') +
                   std::to_string(report.step) + "  loss " + fixed(mean_loss_, 3) + "  " + validation_ +
                   short_number(report.tokens_per_second) + " " + unit_ + "/s";
    state.fraction = double(report.step) / double(report.steps);
    if (options_.train.max_minutes > 0)
      state.fraction = std::max(state.fraction, std::min(1.0, report.seconds / (60 * options_.train.max_minutes)));
    state.seconds_left = report.seconds_left;
    if (StopSignals::wanted() && !said_) {
      progress_.note("stopping after this step; once more ends at once, without saving");
      said_ = true;
    }
    progress_.show(state);
  }

  void validated(const ValidationReport& report) override {
    const std::string value =
        report.bits_per_character ? bits_text(*report.bits_per_character) : "loss " + fixed(report.loss, 3);
    validation_ = "validation " + value + "  ";
    progress_.note(
        detail::concat(" step ", report.step, "  validation ", value, report.best ? ", the best so far" : ""));
  }

  void clear() { progress_.clear(); }

 private:
  const TrainOptions& options_;
  Progress progress_;
  double mean_loss_ = 0;
  int64_t steps_ = 0;
  bool said_ = false;
  std::string unit_, validation_;  // the newest
};

struct Train {
  std::vector<std::string> words;
  bool dump_config = false, dry_run = false, resume = false, json = false, quiet = false;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.positional("CONFIG|key=value", words, "a recipe (TOML) or the folder of a run, and settings that beat it");
    line.flag("--dump-config", dump_config, "print the whole configuration as TOML and end");
    line.flag("--dry-run", dry_run, "show shapes, parameters and memory, run one step, write nothing");
    line.flag("--resume", resume, "go on with the run in train.out; an error where there is none");
    line.flag("--json", json, "the result as one JSON object (docs/json.md)");
    threads.declare(line);
    line.flag("-q,--quiet", quiet, "nothing on standard error but errors");
  }

  TrainOptions read_options() const {
    TomlConfig toml;
    std::string config;
    for (const std::string& word : words) {
      std::error_code ignored;  // a long setting is no name of a file
      if (word.find('=') != std::string::npos && !fs::exists(word, ignored)) continue;
      FOVEA_CHECK_CONFIG(config.empty(), "two configurations, ", config, " and ", word, "; settings are key=value");
      config = word;
    }
    FOVEA_CHECK_CONFIG(!config.empty() || dump_config, "no configuration: fovea train CONFIG [key=value …]");
    if (!config.empty())
      toml = TomlConfig::read(is_folder(config) ? fs::path(config) / "config.toml" : fs::path(config));
    TrainOptions out;
    const bool run = !config.empty() && is_folder(config);
    bool elsewhere = false;
    for (const std::string& word : words) {
      if (word == config) continue;
      toml.override_with(word);
      elsewhere = elsewhere || word.starts_with("train.out");
    }
    toml.fill(out);
    if (run && !elsewhere) out.train.out = config;  // it may have been moved or copied since
    if (!config.empty()) out.check();
    return out;
  }

  int run() {
    threads.apply();
    const TrainOptions options = read_options();
    if (dump_config) return output().write(dump_toml(options)), 0;
    const std::string name = run_name(options.train.out);
    if (resume) {
      FOVEA_CHECK_CONFIG(options.train.existing == "resume", "--resume: train.existing is \"", options.train.existing,
                         "\", which begins anew");
      FOVEA_CHECK_CONFIG(path_exists(fs::path(options.train.out) / "last"),
                         "--resume: there is no run to go on with in ", options.train.out);
    }
    if (!quiet) show_log("train");
    const StopSignals catch_signals;
    TrainParts parts = load_train_parts(options);
    if (!quiet) tell(header(name, parts, options));
    if (dry_run) return show_dry_run(parts, options, json), 0;
    if (StopSignals::wanted()) return kExitInterrupted;

    Trainer trainer(std::move(parts), options);
    Watcher watcher(options, quiet);
    trainer.observe(&watcher);
    trainer.stop_on(&StopSignals::flag());
    const TrainResult result = trainer.run();
    watcher.clear();
    report(result, options);
    return result.end == TrainEnd::kInterrupted ? kExitInterrupted : 0;
  }

  static std::string header(const std::string& name, const TrainParts& parts, const TrainOptions& options) {
    const std::string& kind = options.data.kind;
    const bool characters = options.tokenizer.type == "characters" && options.train.init.empty() && kind == "text";
    const std::string unit = kind == "masked" ? "tokens to hide" : characters ? "characters" : unit_of(kind);
    return name + " · " + short_number(double(parts.model->parameter_count())) + " parameters · " +
           grouped_number(parts.train->token_count()) + " " + unit + " · " + machine_summary();
  }

  void report(const TrainResult& result, const TrainOptions& options) const {
    const fs::path folder = fs::path(options.train.out) / (result.end == TrainEnd::kInterrupted ? "last" : "best");
    if (json) {
      nlohmann::json out = {{"end", name_of(result.end)},
                            {"step", result.step},
                            {"tokens", result.tokens},
                            {"seconds", result.seconds},
                            {"folder", folder.native()}};
      if (result.best_step >= 0) out["best_step"] = result.best_step, out["best_loss"] = result.best_loss;
      if (result.best_bits_per_character) out["best_bits_per_character"] = *result.best_bits_per_character;
      return output().json(out);
    }
    if (result.end == TrainEnd::kInterrupted) {
      if (quiet) return;
      return tell(
          detail::concat("stopped at step ", result.step, "; saved ", folder.native(), "; ",
                         options.train.existing == "resume" ? "the same command" : "fovea train " + options.train.out,
                         " goes on from there"));
    }
    std::string quality;
    if (result.best_bits_per_character)
      quality = " (validation " + bits_text(*result.best_bits_per_character) + ")";
    else if (result.best_step >= 0)
      quality = " (validation loss " + fixed(result.best_loss, 3) + ")";
    output().line("saved " + folder.native() + quality);
  }
};

}  // namespace

void register_commands_train(CommandsRegistry& registry) {
  registry.add("train", command<Train>("train a model by a recipe",
                                       "fovea train configs/kjv.toml\n"
                                       "fovea train configs/kjv.toml optim.learning_rate=3e-3 train.out=runs/faster\n"
                                       "fovea train configs/kjv.toml --dry-run"));
}

}  // namespace fovea
