// What tests of reading and writing share: the error of a call, a folder that goes away, a disk that is full.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "fovea/base/error.h"
#include "fovea/io/files.h"

namespace fovea::testing_support {

// The message of the Error that `function` throws, whose kind must be `kind`; "no error" where it throws none.
template <class Function>
std::string error_of(ErrorKind kind, Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  return "no error";
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// A folder never committed is removed with the test that uses it.
struct ScratchTest : testing::Test {
  FolderCommit folder{std::filesystem::temp_directory_path() / "fovea_test"};

  std::filesystem::path at(const std::string& name) const { return folder.path() / name; }
  // Without the sync of write_file: tests write thousands of files.
  void put(const std::string& name, std::string_view bytes) const {
    std::ofstream(at(name), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  int64_t entries(const std::string& name = "") const {
    return std::distance(std::filesystem::directory_iterator(at(name)), std::filesystem::directory_iterator());
  }
};

// While it lives, write() fails beyond this size of a file, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

}  // namespace fovea::testing_support
