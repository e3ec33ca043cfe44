// A run's record: one JSON object a line, appended as the run goes on (docs/json.md lists the fields).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace fovea {

class Journal {
 public:
  // Opens the file, made if need be, and locks it for as long as this object lives: Error(kSystem) where another
  // process writes it. Nothing is changed yet.
  explicit Journal(const std::filesystem::path& path);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  // Forgets what stands behind the first `bytes`, and a line that was cut off.
  void truncate(int64_t bytes);
  int64_t size() const { return size_; }  // bytes

  // One line, written at once: a killed process leaves whole lines. After an error (disk full) nothing of it stays.
  void append(const nlohmann::json& line);
  // To disk: what a checkpoint refers to must survive a power failure.
  void sync();

 private:
  [[noreturn]] void fail(const char* action, int code) const;
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// All whole lines of a journal. Error(kInput) naming file and line for one that is not JSON.
std::vector<nlohmann::json> read_journal(const std::filesystem::path& path);

}  // namespace fovea
