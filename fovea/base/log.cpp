// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/log.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace fovea {
namespace {

std::mutex mutex;
std::shared_ptr<const LogCallback> receiver;

bool named_in_environment(std::string_view topic) {
  static const std::string topics = [] {
    const char* value = std::getenv("FOVEA_LOG");
    return "," + std::string(value ? value : "") + ",";
  }();
  return topics == ",all," || topics.find("," + std::string(topic) + ",") != std::string::npos;
}

std::shared_ptr<const LogCallback> current() {
  const std::lock_guard lock(mutex);
  return receiver;
}

}  // namespace

void set_log_callback(LogCallback callback) {
  const std::lock_guard lock(mutex);
  receiver = callback ? std::make_shared<const LogCallback>(std::move(callback)) : nullptr;
}

bool log_wanted(std::string_view topic) { return current() != nullptr || named_in_environment(topic); }

void log(std::string_view topic, std::string_view message) {
  if (const auto callback = current()) {
    (*callback)(topic, message);
  } else if (named_in_environment(topic)) {
    std::fprintf(stderr, "fovea: %.*s: %.*s\n", int(topic.size()), topic.data(), int(message.size()), message.data());
  }
}

}  // namespace fovea
