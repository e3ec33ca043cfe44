// Ctrl-C and SIGTERM as a flag: the first asks to stop at the next good moment, a second ends the process at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>

namespace fovea {

// Catches both signals for as long as it lives; the flag stays set afterwards. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool wanted();
  static const std::atomic<bool>& flag();

 private:
  struct sigaction interrupt_, terminate_;  // as they were
};

}  // namespace fovea
