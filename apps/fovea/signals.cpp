// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/signals.h"

#include <unistd.h>

#include "apps/fovea/exit_codes.h"

namespace fovea {
namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void on_signal(int) {
  if (stop.exchange(true)) _exit(kExitInterrupted);
}

}  // namespace

StopSignals::StopSignals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // files being written are not disturbed
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool StopSignals::wanted() { return stop.load(std::memory_order_relaxed); }
const std::atomic<bool>& StopSignals::flag() { return stop; }

}  // namespace fovea
