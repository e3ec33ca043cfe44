// How a verb ends: 0 done, 1 failed, 2 usage or configuration, 3 bad input or checkpoint, 4 diverged, 130 interrupted.
// Errors bring their own (fovea/base/error.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadInput = 3;
inline constexpr int kExitInterrupted = 130;

}  // namespace fovea
