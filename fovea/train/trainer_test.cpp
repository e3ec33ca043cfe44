// The trainer: what it writes, when it stops, what it refuses. Resuming has a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/trainer.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <set>

#include "fovea/io/files.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/pretrained.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/journal.h"
#include "fovea/train/schedule.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> events(const fs::path& run, const std::string& event) {
  std::vector<nlohmann::json> out;
  for (const auto& line : read_journal(run / "journal.jsonl"))
    if (line.value("event", std::string("step")) == event) out.push_back(line);
  return out;
}

std::vector<double> losses(const fs::path& run) {
  std::vector<double> out;
  for (const auto& line : events(run, "step")) out.push_back(line["loss"].get<double>());
  return out;
}

struct Watch : TrainObserver {
  std::vector<StepReport> steps;
  std::vector<ValidationReport> validations;
  int saves = 0;
  std::function<void()> on_saved = [] {};
  void stepped(const StepReport& report) override { steps.push_back(report); }
  void validated(const ValidationReport& report) override { validations.push_back(report); }
  void saved(const fs::path&, bool) override { ++saves, on_saved(); }
};

class TrainerRun : public toy::Folder {
 protected:
  fs::path run_ = folder_ / "run";
  TrainOptions options_ = toy::options(run_);
};

TEST_F(TrainerRun, WritesTheWholeFolder) {
  auto parts = toy::parts();
  const double before = evaluate(*parts.model, *parts.validation)->loss;
  Watch watch;
  Trainer trainer(parts, options_);
  trainer.observe(&watch);
  const TrainResult result = trainer.run();
  EXPECT_EQ(result.end, TrainEnd::kFinished);
  EXPECT_EQ(result.step, 40);
  EXPECT_LT(result.best_loss, before - 0.3);
  EXPECT_NEAR(*result.best_bits_per_character, result.best_loss / std::log(2.0) / 2, 1e-12);
  for (const char* name : {"config.toml", "journal.jsonl", "loss.svg", "best/model.safetensors", "best/config.json",
                           "last/training/state.json", "last/training/optimizer.safetensors"})
    EXPECT_TRUE(fs::exists(run_ / name)) << name;
  EXPECT_EQ(fs::read_symlink(run_ / "last"), fs::path("checkpoints/step-40"));
  EXPECT_EQ(losses(run_).size(), 40u);
  EXPECT_EQ(events(run_, "validation").size(), 4u);
  EXPECT_EQ(events(run_, "start")[0]["parameters"], parts.model->parameter_count());
  EXPECT_EQ(events(run_, "end")[0]["reason"], "finished");
  EXPECT_EQ(watch.steps.size(), 40u);
  EXPECT_EQ(watch.validations.size(), 4u);
  EXPECT_GT(watch.steps.back().tokens_per_second, 0);
  EXPECT_EQ(watch.steps.back().seconds_left, 0);
}

TEST_F(TrainerRun, TheJournalTellsRateTokensAndNorm) {
  Trainer(toy::parts(), options_).run();
  int64_t tokens = 0, step = 0;
  for (const auto& line : events(run_, "step")) {
    EXPECT_EQ(line["step"].get<int64_t>(), step + 1);
    EXPECT_DOUBLE_EQ(line["lr"].get<double>(), 0.02 * schedule_factor(options_.schedule, step, 40));
    EXPECT_GT(line["tokens"].get<int64_t>(), tokens);
    EXPECT_GT(line["grad_norm"].get<double>(), 0);
    tokens = line["tokens"].get<int64_t>(), ++step;
  }
}

TEST_F(TrainerRun, SameSeedSameLosses) {
  const auto run = [&](int64_t seed, const char* name) {
    options_.train.out = (folder_ / name).string();
    options_.train.seed = seed;
    auto parts = toy::parts();
    Trainer(parts, options_).run();
    return losses(folder_ / name);
  };
  const auto first = run(1, "a");
  EXPECT_EQ(first, run(1, "b"));
  EXPECT_NE(first, run(2, "c"));  // dropout draws from LibTorch's generator, which the run seeds
}

TEST_F(TrainerRun, OnlyBestAndLastStay) {
  options_.optim.learning_rate = 2;  // gets worse after a while
  options_.train.checkpoint_every = 3;
  const TrainResult result = Trainer(toy::parts(), options_).run();
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-40", "step-" + std::to_string(result.best_step)}));
  auto parts = toy::parts();
  ASSERT_TRUE(load_weights(*parts.model, SafetensorsFolder(run_ / "best")).good());
  EXPECT_EQ(evaluate(*parts.model, *parts.validation)->loss, result.best_loss);
}

TEST_F(TrainerRun, WithoutValidationTheLastIsTheBest) {
  auto parts = toy::parts();
  parts.validation = nullptr;
  const TrainResult result = Trainer(parts, options_).run();
  EXPECT_EQ(result.best_step, -1);
  EXPECT_EQ(fs::read_symlink(run_ / "best"), fs::path("checkpoints/step-40"));
  EXPECT_EQ(std::distance(fs::directory_iterator(run_ / "checkpoints"), {}), 1);
}

TEST_F(TrainerRun, EarlyStop) {
  options_.optim.learning_rate = 3;
  options_.train.steps = 400;
  options_.train.validate_every = 5;
  options_.train.patience = 3;
  const TrainResult result = Trainer(toy::parts(), options_).run();
  EXPECT_EQ(result.end, TrainEnd::kEarlyStop);
  EXPECT_EQ(result.step, result.best_step + 15);
  const TrainResult again = Trainer(toy::parts(), options_).run();
  EXPECT_EQ(again.end, TrainEnd::kEarlyStop);
  EXPECT_EQ(again.step, result.step);
}

TEST_F(TrainerRun, TimeUp) {
  options_.train.steps = 1000000;
  options_.train.max_minutes = 0.3 / 60;
  const TrainResult result = Trainer(toy::parts(), options_).run();
  EXPECT_EQ(result.end, TrainEnd::kTimeUp);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(events(run_, "validation").back()["step"], result.step);
}

TEST_F(TrainerRun, ADivergedRunKeepsItsLastCheckpoint) {
  auto model = toy::model();
  auto parts = toy::parts(model);
  Watch watch;
  watch.on_saved = [&] { model->factor = watch.saves == 2 ? std::nan("") : 1; };  // at step 10
  Trainer trainer(parts, options_);
  trainer.observe(&watch);
  toy::expect_error([&] { trainer.run(); }, ErrorKind::kDiverged, "the loss is nan at step 11");
  EXPECT_EQ(fs::read_symlink(run_ / "last"), fs::path("checkpoints/step-10"));
  EXPECT_EQ(read_state(run_ / "best").step, 10);
  EXPECT_EQ(events(run_, "diverged")[0]["step"], 11);
  EXPECT_EQ(Error(ErrorKind::kDiverged, "").exit_code(), 4);
  model->factor = 1;
  EXPECT_EQ(Trainer(toy::parts(), options_).run().step, 40);  // and the run can go on from it
}

TEST_F(TrainerRun, FrozenParametersStay) {
  options_.train.freeze = {"output", "b*"};
  auto parts = toy::parts();
  const at::Tensor output = parts.model->named_parameters()["output"], scale = parts.model->named_parameters()["scale"];
  const at::Tensor output_before = output.detach().clone(), scale_before = scale.detach().clone();
  Trainer(parts, options_).run();
  EXPECT_TRUE(at::equal(output, output_before));
  EXPECT_FALSE(at::equal(scale, scale_before));
}

// RLIMIT_FSIZE makes a write fail as a full disk does.
TEST_F(TrainerRun, AFullDiskLeavesTheEarlierCheckpoint) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  Watch watch;
  watch.on_saved = [&] {
    const rlimit small{16384, before.rlim_max};  // more than the journal, less than the weights
    setrlimit(RLIMIT_FSIZE, &small);
  };
  {
    Trainer trainer(toy::parts(toy::model(1000)), options_);
    trainer.observe(&watch);
    toy::expect_error([&] { trainer.run(); }, ErrorKind::kSystem, "safetensors");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(fs::read_symlink(run_ / "last"), fs::path("checkpoints/step-7"));
  EXPECT_EQ(std::distance(fs::directory_iterator(run_ / "checkpoints"), {}), 1);  // no half-written one
  EXPECT_EQ(Trainer(toy::parts(toy::model(1000)), options_).run().step, 40);
}

TEST_F(TrainerRun, FoldersThatCannotBeUsed) {
  const auto run = [&](const fs::path& out) {
    options_.train.out = out.string();
    Trainer(toy::parts(), options_).run();
  };
  write_file(folder_ / "file", "x");
  toy::expect_error([&] { run(folder_ / "file"); }, ErrorKind::kConfig, "is a file");
  toy::expect_error([&] { run(folder_ / "file" / "run"); }, ErrorKind::kSystem, "cannot make the folder");
  toy::expect_error([&] { run("/proc/run"); }, ErrorKind::kSystem, "/proc/run");
  toy::expect_error([&] { run(folder_); }, ErrorKind::kConfig, "holds other things (file) and no run");
  EXPECT_EQ(read_file(folder_ / "file"), "x");
  fs::create_directory(folder_ / "recipes");
  write_file(folder_ / "recipes" / "config.toml", "# mine");  // a recipe's name is no run
  toy::expect_error([&] { run(folder_ / "recipes"); }, ErrorKind::kConfig, "holds other things (config.toml)");
  EXPECT_EQ(read_file(folder_ / "recipes" / "config.toml"), "# mine");
}

TEST_F(TrainerRun, PartsThatDoNotFit) {
  auto parts = toy::parts();
  parts.train = std::make_shared<TokenWindows>(toy::stream(200, 1), WindowOptions{.context = 65});
  toy::expect_error([&] { Trainer(parts, options_); }, ErrorKind::kConfig,
                    "rows of 65 tokens, the model has 64 positions");
  parts = toy::parts();
  parts.validation = std::make_shared<TokenWindows>(std::vector<TokenId>(40, 11), WindowOptions{.context = 8});
  toy::expect_error([&] { Trainer(parts, options_); }, ErrorKind::kConfig, "the tokenizer does not fit the model");
  options_.optim.learning_rate = -1;
  toy::expect_error([&] { Trainer(toy::parts(), options_); }, ErrorKind::kConfig, "optim.learning_rate is -1");
}

TEST(Evaluate, AveragesByTokenAndLeavesTheModelAsItWas) {
  auto model = toy::model();
  const auto tokens = toy::stream(100, 3);
  const auto data = [&](int64_t batch) {
    return TokenWindows(tokens, {.context = 16, .batch_size = batch, .order = WindowOrder::kConsecutive});
  };
  model->train();
  auto one = data(1), many = data(50);
  at::manual_seed(1);
  const at::Tensor expected = at::rand({3});
  at::manual_seed(1);
  const auto a = evaluate(*model, one), b = evaluate(*model, many);
  EXPECT_NEAR(a->loss, b->loss, 1e-6);
  EXPECT_EQ(a->tokens, 99);
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(at::equal(at::rand({3}), expected));
  EXPECT_NEAR(a->bits_per_character(1), a->loss / std::log(2.0), 1e-12);
  EXPECT_NEAR(a->perplexity(), std::exp(a->loss), 1e-9);
  EXPECT_FALSE(evaluate(*model, one, [] { return true; }).has_value());
}

}  // namespace
}  // namespace fovea
