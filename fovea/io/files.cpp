// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";

[[noreturn]] void fail(const fs::path& path, std::string_view action, int code) {
  std::string reason = std::generic_category().message(code);
  if (code == ENOSPC || code == EDQUOT) reason += " (the disk is full)";
  if (code == EFBIG) reason += " (a file-size limit was reached)";
  throw Error(ErrorKind::kSystem, detail::concat(path.native(), ": cannot ", action, ": ", reason));
}

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

std::string an(std::string_view what) {
  const bool vowel = !what.empty() && std::string_view("aeiou").find(what[0]) != std::string_view::npos;
  return std::string(vowel ? "an " : "a ") + std::string(what);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// "no such tokenizer" and what helps to find it: the first folder that is missing, or a file with a similar name.
[[noreturn]] void fail_missing(const fs::path& path, std::string_view what) {
  std::error_code ignored;
  fs::path folder = folder_of(path);
  std::string help;
  if (fs::is_directory(folder, ignored)) {
    std::vector<std::string> siblings;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.exists(ignored) && !entry.is_directory(ignored)) siblings.push_back(entry.path().filename().native());
    const std::string near = nearest(path.filename().native(), siblings);
    if (!near.empty()) help = detail::concat("; did you mean \"", (path.parent_path() / near).native(), "\"?");
  } else {
    while (folder.has_parent_path() && folder != folder.parent_path() && !fs::exists(folder.parent_path(), ignored))
      folder = folder.parent_path();
    help = detail::concat(" (the folder \"", folder.native(), "\" does not exist)");
  }
  if (help.empty() && path.is_relative())
    help = detail::concat(" (looked in ", fs::current_path(ignored).native(), ")");
  throw Error(ErrorKind::kInput, detail::concat(path.native(), ": no such ", what, help));
}

Descriptor open_existing(const fs::path& path, std::string_view what, struct stat& status) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) fail_missing(path, what);
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) fail(path, "read", errno);
  FOVEA_CHECK_INPUT(!S_ISDIR(status.st_mode), path.native(), ": is a folder, wanted ", an(what));
  return descriptor;
}

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  // Linux moves at most 2^31 - 4096 bytes a call.
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void sync_descriptor(int descriptor, const fs::path& path) {
  // EINVAL, EROFS: pipes and some file systems cannot sync; there is nothing more to do for them.
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS) fail(path, "write to disk", errno);
}

// ".model.safetensors.tmp-1f2e3d4c" beside `path`.
fs::path temporary_name(const fs::path& path) {
  static thread_local std::mt19937 random{std::random_device{}()};
  char suffix[16];
  std::snprintf(suffix, sizeof suffix, "%08x", static_cast<unsigned>(random()));
  return folder_of(path) / detail::concat(".", path.filename().native(), kTemporaryMark, suffix);
}

// The lock tells remove_abandoned_temporaries that the owner lives; it goes with the process.
void hold(int descriptor) { ::flock(descriptor, LOCK_EX | LOCK_NB); }

bool is_abandoned(const fs::path& path) {
  const std::string name = path.filename().native();
  const size_t mark = name.rfind(kTemporaryMark);
  const std::string_view suffix =
      std::string_view(name).substr(mark == std::string::npos ? name.size() : mark + kTemporaryMark.size());
  if (name[0] != '.' || suffix.size() != 8 || suffix.find_first_not_of("0123456789abcdef") != suffix.npos) return false;
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status;
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) return false;
  // The minute covers the moment between creation and lock.
  return std::time(nullptr) - status.st_mtime > 60 && ::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0;
}

// Atomic where the kernel and file system can exchange two names; otherwise by way of a third name.
void exchange_folders(const fs::path& fresh, const fs::path& target) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  const fs::path aside = temporary_name(target);
  if (::rename(target.c_str(), aside.c_str()) != 0) fail(target, "replace", errno);
  if (::rename(fresh.c_str(), target.c_str()) != 0) {
    const int code = errno;
    ::rename(aside.c_str(), target.c_str());
    fail(target, "replace", code);
  }
  ::rename(aside.c_str(), fresh.c_str());
}

void sync_tree(const fs::path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
      continue;
    }
    const Descriptor descriptor(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (descriptor.get() < 0) fail(entry.path(), "write to disk", errno);
    sync_descriptor(descriptor.get(), entry.path());
  }
  if (code) fail(folder, "read the folder", code.value());
  sync_folder(folder);
}

fs::file_status status_of(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::status_known(status)) fail(path, "read", code.value());
  return status;
}

}  // namespace

bool path_exists(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

std::string read_file(const fs::path& path, std::string_view what) {
  struct stat status;
  const Descriptor descriptor = open_existing(path, what, status);
  std::string out;
  // Pipes and files under /proc announce no size; reading one byte more than announced finds the end either way.
  size_t filled = 0;
  out.resize(static_cast<size_t>(status.st_size) + 1);
  while (true) {
    if (filled == out.size()) out.resize(std::max<size_t>(2 * out.size(), 4096));
    const ssize_t got = ::read(descriptor.get(), out.data() + filled, std::min(out.size() - filled, size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read", errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  out.resize(filled);
  return out;
}

std::string read_text(const fs::path& path, std::string_view what) {
  std::string text = read_file(path, what);
  check_utf8(text, path.native());
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

void write_file(const fs::path& path, std::string_view bytes) {
  FileCommit file(path);
  file.write(bytes);
  file.commit();
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) fail(folder, "open the folder", errno);
  sync_descriptor(descriptor.get(), folder);
}

size_t remove_abandoned_temporaries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_abandoned(entry.path())) found.push_back(entry.path());
  for (const auto& path : found) fs::remove_all(path, ignored);
  return found.size();
}

MappedFile::MappedFile(const fs::path& path, std::string_view what) : path_(path) {
  struct stat status;
  const Descriptor descriptor = open_existing(path, what, status);
  FOVEA_CHECK_INPUT(S_ISREG(status.st_mode), path.native(), ": is not a regular file, wanted a ", what);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  // Writable and private: an in-place operation on a tensor in the map then works on this process's copy, no crash.
  void* map = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor.get(), 0);
  if (map == MAP_FAILED) fail(path, "map into memory", errno);
  data_ = static_cast<char*>(map);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

FileCommit::FileCommit(const fs::path& path) : path_(path) {
  std::error_code ignored;
  const fs::file_status old = fs::status(path, ignored);
  FOVEA_CHECK_INPUT(!fs::is_directory(old), path.native(), ": is a folder, cannot be written as a file");
  if (fs::exists(old) && !fs::is_regular_file(old)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(path, "write", errno);
    return;
  }
  if (fs::exists(old) && fs::is_symlink(path)) path_ = fs::canonical(path, ignored);
  temporary_ = temporary_name(path_);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int code = errno;
    // A folder such as /proc refuses new files as if it were not there.
    if ((code != ENOENT && code != ENOTDIR) || fs::is_directory(folder_of(path_), ignored))
      fail(path, "write into its folder", code);
    throw Error(ErrorKind::kSystem,
                detail::concat(path.native(), ": cannot write: the folder ", folder_of(path_), " does not exist"));
  }
  hold(descriptor_);
  if (fs::exists(old)) ::fchmod(descriptor_, static_cast<mode_t>(old.permissions()));
}

FileCommit::FileCommit(FileCommit&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      synced_(other.synced_) {}

FileCommit::~FileCommit() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileCommit::write(std::string_view bytes) { write_all(descriptor_, bytes, path_); }

void FileCommit::sync() {
  sync_descriptor(descriptor_, path_);
  synced_ = true;
}

void FileCommit::commit() {
  FOVEA_ASSERT(descriptor_ >= 0, path_.native(), " was committed before");
  if (!synced_) sync();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_, "write", errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "replace", errno);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

FolderCommit::FolderCommit(const fs::path& target, Existing existing) : target_(target), existing_(existing) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "runs/kjv/"
  std::error_code code;
  if (fs::exists(target_, code)) {
    FOVEA_CHECK_INPUT(fs::is_directory(target_, code), target.native(), ": exists and is not a folder");
    FOVEA_CHECK_INPUT(existing == Existing::kReplace || fs::is_empty(target_, code), target.native(),
                      ": the folder exists and is not empty");
  }
  if (!code) fs::create_directories(folder_of(target_), code);
  if (code) fail(target, "create the folder", code.value());
  temporary_ = temporary_name(target_);
  if (::mkdir(temporary_.c_str(), 0777) != 0) fail(target, "create the folder", errno);
  descriptor_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  hold(descriptor_);
}

FolderCommit::~FolderCommit() {
  if (descriptor_ >= 0) ::close(descriptor_);
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void FolderCommit::commit() {
  FOVEA_ASSERT(!temporary_.empty(), target_.native(), " was committed before");
  sync_tree(temporary_);
  // rename() replaces an empty folder by itself.
  if (::rename(temporary_.c_str(), target_.c_str()) == 0) {
    temporary_.clear();
  } else if ((errno == ENOTEMPTY || errno == EEXIST) && existing_ == Existing::kReplace) {
    exchange_folders(temporary_, target_);  // the old folder now has the temporary name
    sync_folder(folder_of(target_));
    std::error_code ignored;
    fs::remove_all(std::exchange(temporary_, {}), ignored);
    return;
  } else {
    fail(target_, "create the folder", errno);
  }
  sync_folder(folder_of(target_));
}

}  // namespace fovea
