// The library never prints: it hands lines to a callback. Unset, only topics named in FOVEA_LOG (comma list, or "all")
// go to stderr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace fovea {

using LogCallback = std::function<void(std::string_view topic, std::string_view message)>;

// Replaces the receiver; an empty function restores the default. Safe to call from any thread.
void set_log_callback(LogCallback callback);
// Cheap when nobody listens: ask before building a message.
bool log_wanted(std::string_view topic);
void log(std::string_view topic, std::string_view message);

}  // namespace fovea
