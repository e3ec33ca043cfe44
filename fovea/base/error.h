// The one exception type of the library, with the kind that decides a program's exit code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace fovea {

enum class ErrorKind {
  kArgument,  // a caller passed a wrong shape, type, range …        exit 1
  kConfig,    // usage, option or configuration file                 exit 2
  kInput,     // input text, data file, checkpoint, tokenizer        exit 3
  kDiverged,  // NaN or infinite loss                                exit 4
  kSystem,    // disk full, unwritable folder, out of memory …       exit 1
  kInternal,  // a bug of ours                                       exit 1
};

// What went wrong, in one sentence: function, argument, what was wanted and what came.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept {
    switch (kind_) {
      case ErrorKind::kConfig: return 2;
      case ErrorKind::kInput: return 3;
      case ErrorKind::kDiverged: return 4;
      default: return 1;
    }
  }

 private:
  ErrorKind kind_;
};

}  // namespace fovea
