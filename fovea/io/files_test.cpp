// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "fovea/base/error.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

using namespace testing_support;
using FilesTest = ScratchTest;

// Rights mean nothing to root: step down to "nobody" while they are tested.
class WithoutRoot {
 public:
  WithoutRoot() : was_root_(::geteuid() == 0) {
    if (was_root_ && ::seteuid(65534) != 0) ADD_FAILURE() << "seteuid";
  }
  ~WithoutRoot() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool was_root_;
};

TEST_F(FilesTest, WrittenBytesAreReadBack) {
  const std::string bytes("a\0b\r\n\xFF", 6);
  write_file(at("x"), bytes);
  EXPECT_EQ(read_file(at("x")), bytes);
  write_file(at("x"), "");
  EXPECT_EQ(read_file(at("x")), "");
  EXPECT_EQ(entries(), 1);
  EXPECT_NE(read_file("/proc/self/status"), "");  // announces no size
}

TEST_F(FilesTest, MissingFilesAreExplained) {
  write_file(at("tokenizer.json"), "{}");
  const auto missing = [&](const fs::path& path) {
    return error_of(ErrorKind::kInput, [&] { read_file(path, "tokenizer"); });
  };
  EXPECT_EQ(missing(at("tokeniser.json")), at("tokeniser.json").native() + ": no such tokenizer; did you mean \"" +
                                               at("tokenizer.json").native() + "\"?");
  fs::create_directory(at("tokenizer.jso"));
  EXPECT_EQ(missing(at("tokenizer.jsx")).find("jso\""), std::string::npos);  // a folder is no file to suggest
  EXPECT_HAS(missing(at("a/b/c")), "(the folder \"" + at("a").native() + "\" does not exist)");
  EXPECT_HAS(missing("no_such_thing_at_all"), "(looked in " + fs::current_path().native() + ")");
  EXPECT_HAS(missing(at("tokenizer.json") / "x"), "no such tokenizer");
  EXPECT_HAS(missing(folder.path()), "is a folder, wanted a tokenizer");
}

TEST_F(FilesTest, UnreadableFilesAreASystemError) {
  write_file(at("secret"), "x");
  fs::permissions(at("secret"), fs::perms::none);
  const WithoutRoot drop;
  EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { read_file(at("secret")); }), "secret: cannot read: Permission denied");
  EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { MappedFile map(at("secret")); }), "Permission denied");
}

TEST_F(FilesTest, WhatStandsAtAPath) {
  put("x", "x");
  EXPECT_TRUE(path_exists(at("x")) && !is_folder(at("x")) && is_folder(folder.path()));
  EXPECT_FALSE(path_exists(at("y")) || path_exists(at("x/y")) || is_folder("") || path_exists(at("y/z")));
  fs::create_directory(at("locked"));
  fs::permissions(at("locked"), fs::perms::none);
  {
    const WithoutRoot drop;  // std::filesystem's own answer would be another type of exception
    EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { path_exists(at("locked/x")); }), "locked/x: cannot read: Permission");
    EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { is_folder(at("locked/x")); }), "locked/x: cannot read: Permission");
  }
  fs::permissions(at("locked"), fs::perms::owner_all);
}

TEST_F(FilesTest, TextIsUtf8WithoutItsByteOrderMark) {
  put("t", "\xEF\xBB\xBFhi");
  EXPECT_EQ(read_text(at("t")), "hi");
  put("t", "ab\xFF");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { read_text(at("t")); }), "/t: invalid UTF-8 at byte 2 (0xff)");
}

TEST_F(FilesTest, AFullDiskLeavesTheOldFile) {
  write_file(at("x"), "old");
  {
    const FileSizeLimit limit(1 << 16);
    const std::string message = error_of(ErrorKind::kSystem, [&] { write_file(at("x"), std::string(1 << 20, 'n')); });
    EXPECT_HAS(message, "/x: cannot write");
  }
  EXPECT_EQ(read_file(at("x")), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(FilesTest, ADeviceIsWrittenToNotReplaced) {
  EXPECT_HAS(error_of(ErrorKind::kSystem, [] { write_file("/dev/full", "x"); }),
             "/dev/full: cannot write: No space left");
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FilesTest, AnUnwritableFolderIsASystemError) {
  fs::create_directory(at("locked"));
  write_file(at("locked") / "x", "old");
  fs::permissions(at("locked"),
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  {
    const WithoutRoot drop;
    EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { write_file(at("locked/x"), "new"); }), "Permission denied");
    EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { FolderCommit inner(at("locked/y")); }), "Permission denied");
  }
  EXPECT_EQ(read_file(at("locked/x")), "old");
  fs::permissions(at("locked"), fs::perms::owner_all);
}

TEST_F(FilesTest, AMissingFolderIsNamed) {
  EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { write_file(at("no/x"), "x"); }),
             "the folder \"" + at("no").native() + "\" does not exist");
  EXPECT_HAS(error_of(ErrorKind::kSystem, [&] { write_file("/proc/x", "x"); }), "/proc/x: cannot write into its folder");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { write_file(folder.path(), "x"); }), "is a folder");
}

TEST_F(FilesTest, PermissionsAndLinksStay) {
  write_file(at("x"), "old");
  fs::permissions(at("x"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
  fs::create_symlink("x", at("link"));
  write_file(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read_file(at("x")), "new");
  EXPECT_EQ(fs::status(at("x")).permissions() & fs::perms::owner_exec, fs::perms::owner_exec);
}

TEST_F(FilesTest, AnUncommittedFileLeavesNothing) {
  write_file(at("x"), "old");
  {
    FileCommit file(at("x"));
    file.write("half");
    EXPECT_EQ(entries(), 2);
    FileCommit moved = std::move(file);
    EXPECT_EQ(read_file(at("x")), "old");
  }
  EXPECT_EQ(read_file(at("x")), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(FilesTest, MapsAreReadOnlyForTheFile) {
  write_file(at("x"), "abcdef");
  MappedFile map(at("x"));
  EXPECT_EQ(map.bytes(), "abcdef");
  map.data()[0] = 'X';
  EXPECT_EQ(map.bytes(), "Xbcdef");
  EXPECT_EQ(read_file(at("x")), "abcdef");
  MappedFile moved = std::move(map);
  EXPECT_EQ(moved.bytes(), "Xbcdef");
  EXPECT_EQ(map.size(), 0u);  // NOLINT(bugprone-use-after-move): what a moved-from map promises
  map = MappedFile(at("x"));
  EXPECT_EQ(map.bytes(), "abcdef");
}

TEST_F(FilesTest, AMapSurvivesTheReplacementOfItsFile) {
  write_file(at("x"), "old content");
  const MappedFile map(at("x"));
  write_file(at("x"), "new");
  EXPECT_EQ(map.bytes(), "old content");
}

TEST_F(FilesTest, EmptyAndOddFilesMap) {
  write_file(at("empty"), "");
  EXPECT_EQ(MappedFile(at("empty")).size(), 0u);
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { MappedFile map(at("no"), "checkpoint"); }), "no such checkpoint");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { MappedFile map(folder.path()); }), "is a folder");
  EXPECT_HAS(error_of(ErrorKind::kInput, [] { MappedFile map("/dev/null"); }), "not a regular file");
}

TEST_F(FilesTest, AFolderAppearsWholeOrNotAtAll) {
  {
    FolderCommit half(at("runs/step_1"));
    write_file(half.path() / "model", "x");
    EXPECT_FALSE(fs::exists(at("runs/step_1")));
  }
  EXPECT_TRUE(fs::is_empty(at("runs")));
  FolderCommit whole(at("runs/step_1/"));
  fs::create_directories(whole.path() / "deep");
  write_file(whole.path() / "deep" / "model", "x");
  whole.commit();
  EXPECT_EQ(read_file(at("runs/step_1/deep/model")), "x");
  EXPECT_EQ(entries("runs"), 1);
}

TEST_F(FilesTest, AnExistingFolderIsRefusedOrExchanged) {
  fs::create_directory(at("out"));
  FolderCommit(at("out")).commit();  // an empty one is no loss
  write_file(at("out/keep"), "x");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { FolderCommit fresh(at("out")); }), "exists and is not empty");
  EXPECT_HAS(error_of(ErrorKind::kInput, [&] { FolderCommit fresh(at("out/keep"), FolderCommit::Existing::kReplace); }),
             "is not a folder");
  { FolderCommit abandoned(at("out"), FolderCommit::Existing::kReplace); }
  EXPECT_EQ(read_file(at("out/keep")), "x");
  FolderCommit fresh(at("out"), FolderCommit::Existing::kReplace);
  write_file(fresh.path() / "new", "y");
  fresh.commit();
  EXPECT_EQ(read_file(at("out/new")), "y");
  EXPECT_FALSE(fs::exists(at("out/keep")));
  EXPECT_EQ(entries(), 1);
}

TEST_F(FilesTest, WhatAKilledProcessLeftIsRemovedWhatALivingOneHoldsStays) {
  const fs::path dead = at(".model.tmp-00c0ffee"), dead_folder = at(".run.tmp-00c0ffee"),
                 other = at(".model.tmp-notours");
  fs::create_directory(dead_folder);
  for (const auto& path : {dead, dead_folder / "x", other}) std::ofstream(path) << "x";
  const FolderCommit living(at("run"));
  EXPECT_EQ(remove_abandoned_temporaries(folder.path()), 0u);  // all younger than a minute
  for (const auto& path : {dead, dead_folder, other, living.path()})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  EXPECT_EQ(remove_abandoned_temporaries(folder.path()), 2u);
  EXPECT_FALSE(fs::exists(dead) || fs::exists(dead_folder));
  EXPECT_TRUE(fs::exists(living.path()) && fs::exists(other));
  EXPECT_EQ(remove_abandoned_temporaries(at("no_such_folder")), 0u);
}

}  // namespace
}  // namespace fovea
