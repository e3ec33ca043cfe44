// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/run_folder.h"

#include <string>
#include <system_error>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// std::filesystem's errors as ours.
template <class Action>
void on_disk(const fs::path& path, const char* doing, Action action) {
  std::error_code code;
  action(code);
  FOVEA_CHECK_KIND(ErrorKind::kSystem, !code, path.native(), ": cannot ", doing, ": ", code.message());
}

// What is in the way of a run, or "" where the folder is empty or already holds one.
std::string foreign_entry(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / "journal.jsonl", ignored) || fs::is_symlink(path / "last", ignored)) return "";
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.path().filename().native().find(".tmp-") == std::string::npos) return entry.path().filename().native();
  return "";
}

}  // namespace

std::string run_name(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().native();  // "runs/kjv/", too
}

RunFolder::RunFolder(const fs::path& path) : path_(path) {
  std::error_code ignored;
  FOVEA_CHECK_CONFIG(!fs::exists(path, ignored) || fs::is_directory(path, ignored), "train.out: ", path.native(),
                     " is a file; wanted a folder");
  on_disk(path, "make the folder", [&](std::error_code& code) { fs::create_directories(path_, code); });
  const std::string foreign = foreign_entry(path);
  FOVEA_CHECK_CONFIG(foreign.empty(), "train.out: ", path.native(), " holds other things (", foreign,
                     ") and no run; name a new folder");
}

fs::path RunFolder::checkpoint(int64_t step) const { return path_ / "checkpoints" / ("step-" + std::to_string(step)); }

bool RunFolder::has_checkpoint() const {
  std::error_code ignored;
  if (fs::is_symlink(last(), ignored) && fs::is_directory(last(), ignored)) return true;
  for (const fs::path& path : {last(), best()})
    FOVEA_CHECK_INPUT(!fs::exists(fs::symlink_status(path, ignored)), last().native(),
                      ": is no link to a checkpoint; mend it, or set train.existing=replace to give that run up");
  return false;
}

void RunFolder::point(const fs::path& link, int64_t step) {
  const fs::path target = fs::path("checkpoints") / checkpoint(step).filename();
  const fs::path fresh = path_ / ("." + link.filename().native() + ".tmp-link");
  std::error_code ignored;
  fs::remove(fresh, ignored);  // a killed process may have left it
  on_disk(link, "point to the checkpoint", [&](std::error_code& code) {
    fs::create_directory_symlink(target, fresh, code);
    if (!code) fs::rename(fresh, link, code);
  });
}

void RunFolder::save(int64_t step, bool best, const std::function<void(const fs::path&)>& write) {
  {
    FolderCommit folder(checkpoint(step), FolderCommit::Existing::kReplace);
    write(folder.path());
    folder.commit();
  }
  point(last(), step);
  std::error_code ignored;
  if (best || !fs::is_directory(this->best(), ignored)) point(this->best(), step);
  sync_folder(path_);
  remove_unused();
}

void RunFolder::remove_unused() {
  std::error_code code;
  const fs::path used[] = {fs::read_symlink(last(), code).filename(), fs::read_symlink(best(), code).filename()};
  std::vector<fs::path> unused;
  for (const auto& entry : fs::directory_iterator(path_ / "checkpoints", code)) {
    const fs::path name = entry.path().filename();
    if (name.native().rfind("step-", 0) == 0 && name != used[0] && name != used[1]) unused.push_back(entry.path());
  }
  for (const fs::path& path : unused)
    on_disk(path, "remove an old checkpoint", [&](std::error_code& code) { fs::remove_all(path, code); });
}

void RunFolder::repair(int64_t best_step) {
  std::error_code ignored;
  if (best_step >= 0 && fs::is_directory(checkpoint(best_step), ignored) &&
      fs::read_symlink(best(), ignored).filename() != checkpoint(best_step).filename())
    point(best(), best_step);
  remove_unused();
  if (fs::is_directory(path_ / "checkpoints", ignored)) remove_abandoned_temporaries(path_ / "checkpoints");
}

void RunFolder::clear() {
  // In this order a process killed here leaves a run that can go on, or none.
  for (const fs::path& path : {best(), last(), path_ / "checkpoints", curve(), config()})
    on_disk(path, "remove the earlier run", [&](std::error_code& code) { fs::remove_all(path, code); });
}

}  // namespace fovea
