// Files and folders: whole reads, memory maps, and writes that either happen completely or not at all.
//
// Errors name the path. What the user named but does not exist, or is of the wrong kind, is Error(kInput); a full disk,
// a missing permission or a failing device is Error(kSystem).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea {

// Whether something stands at `path`, and whether it is a folder; links are followed. Where that cannot be told (a
// folder that one may not search): Error(kSystem).
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// All bytes of a file. `what` says in errors what was looked for ("tokenizer", "training text").
std::string read_file(const std::filesystem::path& path, std::string_view what = "file");

// The same for text: must be UTF-8 (check_utf8); a byte order mark at its start is dropped.
std::string read_text(const std::filesystem::path& path, std::string_view what = "file");

// Replaces `path` in one step (FileCommit). A device or pipe such as /dev/stdout is simply written to.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// Makes the entries of a folder (new names, renames) survive a power failure.
void sync_folder(const std::filesystem::path& folder);

// Removes what killed processes left in `folder`: temporary files and folders of FileCommit and FolderCommit that no
// process holds any more and that are older than a minute. Returns how many.
size_t remove_abandoned_temporaries(const std::filesystem::path& folder);

// A file mapped into memory. Pages are read when touched. The mapping is private: writing through `data()` changes this
// process's memory (copy on write), never the file. The file must not be shortened while it is mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, std::string_view what = "file");
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const { return {data_, size_}; }
  char* data() const { return data_; }  // null for an empty file
  size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  char* data_ = nullptr;
  size_t size_ = 0;
};

// A file under construction: bytes go to a temporary file in the same folder; `commit()` syncs it and renames it to
// `path`. Until then, and after any error, what stood at `path` is untouched; the destructor removes the temporary
// file. An existing file keeps its permissions; a symbolic link keeps pointing to the (new) file.
class FileCommit {
 public:
  explicit FileCommit(const std::filesystem::path& path);
  FileCommit(FileCommit&& other) noexcept;
  FileCommit& operator=(FileCommit&&) = delete;
  ~FileCommit();

  bool replaces() const { return !temporary_.empty(); }  // false: a device or pipe, which takes everything at once
  void write(std::string_view bytes);
  void sync();    // to disk, still under the temporary name
  void commit();  // sync() if that has not been done, then rename and sync the folder

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: `path_` is a device or pipe, written directly
  int descriptor_ = -1;
  bool synced_ = false;
};

// A folder under construction: fill `path()`, then `commit()` syncs every file in it and renames it to `target`. The
// destructor removes an uncommitted one. A crash at any moment leaves either no `target` or (replacing) the old one
// whole.
class FolderCommit {
 public:
  enum class Existing { kRefuse, kReplace };
  // Parents of `target` are created. Where something stands at `target`: kRefuse is Error(kInput) unless it is an empty
  // folder; kReplace exchanges a folder at commit and removes the old one with all it holds.
  explicit FolderCommit(const std::filesystem::path& target, Existing existing = Existing::kRefuse);
  FolderCommit(const FolderCommit&) = delete;
  FolderCommit& operator=(const FolderCommit&) = delete;
  ~FolderCommit();

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Existing existing_;
  int descriptor_ = -1;  // holds the lock that says "not abandoned"
};

}  // namespace fovea
