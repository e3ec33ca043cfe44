// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace fovea {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);         // large blocks from the heap, too,
  mallopt(M_TRIM_THRESHOLD, -1);  // whose end is never given back
#endif
}

void use_large_pages() { setenv("THP_MEM_ALLOC_ENABLE", "1", 0); }

}  // namespace fovea
