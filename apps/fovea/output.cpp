// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "fovea/base/check.h"
#include "fovea/io/json.h"

namespace fovea {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// All of `text`, or errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(size_t(written));
  }
  return 0;
}

}  // namespace

void Output::write(std::string_view text) {
  waiting_ += text;
  if (waiting_.size() >= kBufferBytes) flush();
}

void Output::line(std::string_view text) {
  write(text);
  write("\n");
}

void Output::json(const nlohmann::json& value) { line(dump_json(value)); }

void Output::flush() {
  const std::string text = std::move(waiting_);
  waiting_.clear();
  const int code = write_all(STDOUT_FILENO, text);
  if (code == EPIPE) throw BrokenPipe();
  FOVEA_CHECK_KIND(ErrorKind::kSystem, code == 0, "standard output: ", std::generic_category().message(code));
}

Output& output() {
  static Output out;
  return out;
}

void show_log(const std::string& topic) {
  const char* topics = std::getenv("FOVEA_LOG");
  const std::string named = topics ? topics : "";
  if (named != "all") setenv("FOVEA_LOG", (named + (named.empty() ? "" : ",") + topic).c_str(), 1);
}

void tell(std::string_view line) {
  std::string text(line);
  text += '\n';
  write_all(STDERR_FILENO, text);
}

}  // namespace fovea
