// Checks that throw fovea::Error. A user's mistake and our own bug use different macros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>

#include "fovea/base/error.h"

namespace fovea::detail {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace fovea::detail

// FOVEA_CHECK(key.size(1) == value.size(1), "key has ", …): throws Error(kArgument) as "function: message".
#define FOVEA_CHECK(condition, ...) FOVEA_CHECK_KIND(::fovea::ErrorKind::kArgument, condition, __func__, ": ", __VA_ARGS__)
// The same for a chosen kind and without the function's name: for files and configuration, where the message names the file.
#define FOVEA_CHECK_KIND(kind, condition, ...)                                      \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      throw ::fovea::Error(kind, ::fovea::detail::concat(__VA_ARGS__));             \
  } while (false)
#define FOVEA_CHECK_INPUT(condition, ...) FOVEA_CHECK_KIND(::fovea::ErrorKind::kInput, condition, __VA_ARGS__)
#define FOVEA_CHECK_CONFIG(condition, ...) FOVEA_CHECK_KIND(::fovea::ErrorKind::kConfig, condition, __VA_ARGS__)
// A broken promise inside the library, never a user's mistake.
#define FOVEA_ASSERT(condition, ...) \
  FOVEA_CHECK_KIND(::fovea::ErrorKind::kInternal, condition, "internal error in ", __func__, " (" #condition "): ", __VA_ARGS__)
