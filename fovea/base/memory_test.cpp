// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>
#include <cstring>

namespace fovea {
namespace {

long pages_cleared_by_the_system() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

// 100 MB, written and given back.
void use_a_large_block() {
  constexpr size_t kBytes = 100 << 20;
  void* block = nullptr;
  ASSERT_EQ(posix_memalign(&block, 64, kBytes), 0);
  std::memset(block, 1, kBytes);
  std::free(block);
}

TEST(Memory, FreedBlocksStay) {
#ifdef __GLIBC__
  if (mallinfo2().arena == 0) GTEST_SKIP() << "a tool has put its allocator in place of glibc's";
  keep_freed_memory();
  use_a_large_block();
  const long before = pages_cleared_by_the_system();
  use_a_large_block();
  EXPECT_LT(pages_cleared_by_the_system() - before, 100);  // of 25,600
#else
  GTEST_SKIP() << "for glibc alone";
#endif
}

}  // namespace
}  // namespace fovea
