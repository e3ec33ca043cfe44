// The folder of a training run, and how a checkpoint gets into it so that a crash at any moment leaves the last good
// one:
//
//   runs/x/config.toml            the recipe
//          journal.jsonl          one line a step (journal.h)
//          loss.svg               the curve
//          checkpoints/step-1200/ a model folder as Hugging Face has it, and training/ with what resuming needs
//          last -> checkpoints/step-1200
//          best -> checkpoints/step-1000
//
// A checkpoint is written as a new folder, synced, renamed into place, and only then pointed to; the links are replaced
// by renaming, so that `best` and `last` are whole folders at any moment; older checkpoints go last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace fovea {

// A run is called as its folder.
std::string run_name(const std::filesystem::path& folder);

class RunFolder {
 public:
  // Makes the folder if need be. Error(kSystem) where that is impossible; Error(kConfig) for a folder that holds other
  // things and no run.
  explicit RunFolder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path journal() const { return path_ / "journal.jsonl"; }
  std::filesystem::path curve() const { return path_ / "loss.svg"; }
  std::filesystem::path best() const { return path_ / "best"; }
  std::filesystem::path last() const { return path_ / "last"; }
  std::filesystem::path checkpoint(int64_t step) const;

  // `last` leads to one. Error(kInput) where the links of an earlier run have lost theirs.
  bool has_checkpoint() const;

  // `write` fills the new folder. `best`: it becomes the best one too, as does the first of all.
  void save(int64_t step, bool best, const std::function<void(const std::filesystem::path&)>& write);
  // After a crash: `best` points at step `best_step` (−1: stays) if that checkpoint exists, and what nothing points to
  // is removed.
  void repair(int64_t best_step);
  // Removes the run that stands here, and nothing else.
  void clear();

 private:
  void point(const std::filesystem::path& link, int64_t step);
  void remove_unused();

  std::filesystem::path path_;
};

}  // namespace fovea
