// A run stopped and resumed equals one that never stopped, bit for bit: by a flag, by an error, by kill -9 at any
// moment.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/models/pretrained.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/journal.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/toy_model_test.h"

extern char** environ;

namespace fovea {
namespace {

namespace fs = std::filesystem;

// Steps and validations without what differs between runs: seconds, starts and ends.
std::vector<std::string> record(const fs::path& run) {
  std::vector<std::string> out;
  for (auto line : read_journal(run / "journal.jsonl")) {
    const std::string event = line.value("event", std::string());
    if (event == "start" || event == "end" || event == "diverged") continue;
    line.erase("seconds");
    out.push_back(dump_json(line));
  }
  return out;
}

bool same_file(const fs::path& a, const fs::path& b) { return read_file(a) == read_file(b); }

class Resume : public toy::Folder {
 protected:
  // One part of a run, as a new process would do it.
  TrainResult go(const fs::path& run, int64_t stop_after = -1) {
    TrainOptions options = options_;
    options.train.out = run.string();
    return toy::train(toy::parts(), options, stop_after);
  }
  void expect_same_run(const fs::path& a, const fs::path& b) {
    EXPECT_EQ(record(a), record(b));
    for (const char* name : {"last/model.safetensors", "last/training/optimizer.safetensors", "best/model.safetensors"})
      EXPECT_TRUE(same_file(a / name, b / name)) << name;
  }
  TrainOptions options_ = toy::options("");
};

TEST_F(Resume, EqualsARunThatNeverStopped) {
  go(folder_ / "whole");
  for (const int64_t stop : {1, 6, 7, 10, 13, 39}) {
    const fs::path run = folder_ / ("stopped-" + std::to_string(stop));
    const TrainResult part = go(run, stop);
    EXPECT_EQ(part.end, TrainEnd::kInterrupted);
    EXPECT_EQ(part.step, stop);
    const TrainResult rest = go(run);
    EXPECT_EQ(rest.end, TrainEnd::kFinished);
    expect_same_run(folder_ / "whole", run);
  }
}

TEST_F(Resume, ManyTimesWithAccumulation) {
  options_.optim.accumulate = 3;
  options_.optim.label_smoothing = 0.1;
  go(folder_ / "whole");
  const fs::path run = folder_ / "pieces";
  while (go(run, 3).end == TrainEnd::kInterrupted) continue;
  expect_same_run(folder_ / "whole", run);
}

TEST_F(Resume, AnInterruptedValidationIsRepeated) {
  go(folder_ / "whole");
  // The flag is raised by the step before the validation at step 10: it is given up, and the state at step 10 saved.
  const fs::path run = folder_ / "run";
  EXPECT_EQ(go(run, 10).step, 10);
  EXPECT_EQ(read_state(run / "last").validated_step, -1);
  go(run);
  expect_same_run(folder_ / "whole", run);
}

TEST_F(Resume, AFinishedRunIsLeftAlone) {
  go(folder_ / "run");
  const auto journal = read_file(folder_ / "run" / "journal.jsonl");
  const TrainResult again = go(folder_ / "run");
  EXPECT_EQ(again.end, TrainEnd::kFinished);
  EXPECT_EQ(again.step, 40);
  EXPECT_GT(again.best_step, 0);
  EXPECT_EQ(read_file(folder_ / "run" / "journal.jsonl"), journal);
}

TEST_F(Resume, MoreStepsGoOn) {
  go(folder_ / "run");
  options_.train.steps = 50;
  const TrainResult more = go(folder_ / "run");
  EXPECT_EQ(more.step, 50);
  EXPECT_EQ(read_journal(folder_ / "run" / "journal.jsonl").back()["reason"], "finished");
}

TEST_F(Resume, AnotherRecipeIsRefusedOrReplaces) {
  go(folder_ / "run", 12);
  const auto before = read_file(folder_ / "run" / "journal.jsonl");
  options_.optim.learning_rate = 0.01;
  toy::expect_error([&] { go(folder_ / "run"); }, ErrorKind::kConfig, "another recipe (optim.learning_rate)");
  EXPECT_EQ(read_file(folder_ / "run" / "journal.jsonl"), before);
  EXPECT_EQ(read_state(folder_ / "run" / "last").step, 12);
  options_.train.existing = "replace";
  EXPECT_EQ(go(folder_ / "run").end, TrainEnd::kFinished);
  go(folder_ / "fresh");
  expect_same_run(folder_ / "run", folder_ / "fresh");
}

TEST_F(Resume, OtherDataIsRefused) {
  go(folder_ / "run", 12);
  options_.train.out = (folder_ / "run").string();
  auto parts = toy::parts();
  parts.train =
      std::make_shared<TokenWindows>(toy::stream(701, 1), WindowOptions{.context = 16, .batch_size = 4, .seed = 5});
  toy::expect_error([&] { Trainer(parts, options_).run(); }, ErrorKind::kInput, "the training data is not the one");
}

TEST_F(Resume, ADamagedCheckpointIsNamed) {
  go(folder_ / "run", 12);
  const fs::path file = folder_ / "run" / "last" / "training" / "optimizer.safetensors";
  const std::string bytes = read_file(file);
  write_file(file, bytes.substr(0, bytes.size() / 2));
  toy::expect_error([&] { go(folder_ / "run"); }, ErrorKind::kInput, "optimizer.safetensors");
  write_file(file, bytes);
  go(folder_ / "run");
  go(folder_ / "whole");
  expect_same_run(folder_ / "whole", folder_ / "run");
}

// What a crash between two of save()'s actions leaves.
TEST_F(Resume, RepairsWhatACrashLeft) {
  go(folder_ / "whole");
  go(folder_ / "run", 10);
  const fs::path run = folder_ / "run";
  go(run, 5);                                               // best is step 10, last is step 15
  fs::copy(run / "last", run / "checkpoints" / "step-17");  // written, not pointed to
  fs::create_directory_symlink("checkpoints/step-17", run / ".last.tmp-link");
  fs::remove(run / "best");
  fs::create_directory_symlink("checkpoints/step-15", run / "best");
  go(run);
  expect_same_run(folder_ / "whole", run);
  EXPECT_FALSE(fs::exists(run / "checkpoints" / "step-17"));
}

// A checkpoint that somebody moved away is no reason to begin anew over the run's journal.
TEST_F(Resume, ALostCheckpointIsNamed) {
  go(folder_ / "run", 12);
  const fs::path run = folder_ / "run";
  const std::string journal = read_file(run / "journal.jsonl");
  fs::rename(run / "checkpoints", folder_ / "elsewhere");
  toy::expect_error([&] { go(run); }, ErrorKind::kInput, "last: is no link to a checkpoint");
  fs::remove(run / "last");  // the best one's link still tells of a run
  toy::expect_error([&] { go(run); }, ErrorKind::kInput, "last: is no link to a checkpoint");
  EXPECT_EQ(read_file(run / "journal.jsonl"), journal);
  fs::rename(folder_ / "elsewhere", run / "checkpoints");
  fs::copy(run / "best", run / "last", fs::copy_options::recursive);  // a copy that followed the links
  toy::expect_error([&] { go(run); }, ErrorKind::kInput, "last: is no link to a checkpoint");
  options_.train.existing = "replace";
  EXPECT_EQ(go(run).end, TrainEnd::kFinished);
}

constexpr const char* kChildFolder = "FOVEA_TEST_KILLED_RUN";

TrainOptions killed_options(const fs::path& run) {
  TrainOptions options = toy::options(run);
  options.train.steps = 120;
  options.train.checkpoint_every = 3;
  return options;
}

// Not a test by itself: the process that KilledAtAnyMoment starts and kills.
TEST(KilledRun, Child) {
  const char* folder = std::getenv(kChildFolder);
  if (!folder) return;
  at::set_num_threads(1);
  Trainer(toy::parts(), killed_options(folder)).run();
}

pid_t start_child(const fs::path& run) {
  setenv(kChildFolder, run.c_str(), 1);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::string filter = "--gtest_filter=KilledRun.Child", quiet = "--gtest_brief=1";
  char* arguments[] = {const_cast<char*>(self.c_str()), filter.data(), quiet.data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, self.c_str(), nullptr, nullptr, arguments, environ), 0);
  unsetenv(kChildFolder);
  return child;
}

// The child has begun to train: its journal has grown beyond what it went on from.
void wait_for_training(const fs::path& run, pid_t child) {
  std::error_code ignored;
  const auto size = [&] {
    const auto bytes = fs::file_size(run / "journal.jsonl", ignored);
    return ignored ? uintmax_t{0} : bytes;
  };
  const uintmax_t before = size();
  for (int i = 0; i < 20000 && size() == before; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG | WNOWAIT) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void check_whole(const fs::path& checkpoint) {
  std::error_code ignored;
  if (!fs::is_symlink(checkpoint, ignored)) return;  // killed before the first checkpoint
  auto model = toy::model();
  AdamW optimizer(distinct_parameters(*model), {});
  EXPECT_NO_THROW(read_checkpoint(checkpoint, {model, nullptr, &optimizer})) << checkpoint;
  EXPECT_GT(read_state(checkpoint).step, 0);
}

TEST_F(Resume, KilledAtAnyMoment) {
  const fs::path run = folder_ / "killed", whole = folder_ / "whole";
  Trainer(toy::parts(), killed_options(whole)).run();
  int kills = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const pid_t child = start_child(run);
    wait_for_training(run, child);
    std::this_thread::sleep_for(std::chrono::microseconds(random_below(60000, 3, 0, uint64_t(attempt))));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) break;  // it was faster
    ++kills;
    check_whole(run / "last");
    check_whole(run / "best");
  }
  EXPECT_GE(kills, 2);
  Trainer(toy::parts(), killed_options(run)).run();
  expect_same_run(whole, run);
}

}  // namespace
}  // namespace fovea
