// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdlib>

namespace fovea {
namespace {

long pages_cleared_by_the_system() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

// 20 MB, written and given back, as LibTorch does with a tensor.
void use_a_large_block() {
  constexpr size_t kBytes = 20 << 20;
  void* block = nullptr;
  ASSERT_EQ(posix_memalign(&block, 64, kBytes), 0);
  std::fill_n(static_cast<volatile char*>(block), kBytes, 1);
  std::free(block);
}

TEST(Memory, FreedBlocksStay) {
#ifdef __GLIBC__
  if (mallinfo2().arena == 0) GTEST_SKIP() << "a tool has put its allocator in place of glibc's";
  keep_freed_memory();
  // Cutting an aligned block leaves scraps, some ten of which glibc holds on to where the block cannot grow over them.
  for (int i = 0; i < 20; ++i) use_a_large_block();
  const long before = pages_cleared_by_the_system();
  for (int i = 0; i < 20; ++i) use_a_large_block();
  EXPECT_LT(pages_cleared_by_the_system() - before, 5000);  // of 102,400
#else
  GTEST_SKIP() << "for glibc alone";
#endif
}

}  // namespace
}  // namespace fovea
