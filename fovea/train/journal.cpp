// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"

namespace fovea {

void Journal::fail(const char* action, int code) const {
  throw Error(ErrorKind::kSystem,
              detail::concat(path_.native(), ": cannot ", action, ": ", std::generic_category().message(code),
                             code == ENOSPC || code == EDQUOT ? " (the disk is full)" : ""));
}

Journal::Journal(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("write", errno);
  struct stat status {};
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || ::fstat(descriptor_, &status) != 0) {
    const int code = errno;
    ::close(descriptor_);
    FOVEA_CHECK_KIND(ErrorKind::kSystem, code != EWOULDBLOCK, path.native(),
                     ": another process is training in this folder");
    fail("lock", code);
  }
  size_ = status.st_size;
}

Journal::~Journal() { ::close(descriptor_); }

void Journal::truncate(int64_t bytes) {
  size_ = std::min(bytes, size_);
  while (size_ > 0) {  // back to the end of a line
    char last = 0;
    if (::pread(descriptor_, &last, 1, size_ - 1) != 1) fail("read", errno);
    if (last == '\n') break;
    --size_;
  }
  if (::ftruncate(descriptor_, size_) != 0) fail("shorten", errno);
}

void Journal::append(const nlohmann::json& line) {
  const std::string text = dump_json(line) + '\n';
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::pwrite(descriptor_, text.data() + done, text.size() - done, size_ + int64_t(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int code = wrote < 0 ? errno : ENOSPC;
      if (::ftruncate(descriptor_, size_) != 0) fail("shorten", errno);
      fail("write", code);
    }
    done += size_t(wrote);
  }
  size_ += int64_t(text.size());
}

void Journal::sync() {
  if (::fsync(descriptor_) != 0) fail("write", errno);
}

std::vector<nlohmann::json> read_journal(const std::filesystem::path& path) {
  const std::string text = read_text(path, "journal");
  std::vector<nlohmann::json> out;
  std::string_view rest = text;
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
    out.push_back(parse_json(rest.substr(0, end), path.native() + ":" + std::to_string(out.size() + 1)));
  return out;
}

}  // namespace fovea
