// How a process holds its memory, for a program's main, before its first tensor. The command calls both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fovea {

// What tensors give back stays with the process (glibc; elsewhere nothing happens). Otherwise every large tensor of
// every step is fresh memory, which the system clears first, one thread working and the others waiting. The price: the
// process keeps the most that it ever needed, and scraps between blocks (a tenth more in encoding texts, nothing in
// training GPT-2).
void keep_freed_memory();

// Pages of 2 MB beneath large tensors, by LibTorch's own switch THP_MEM_ALLOC_ENABLE, unless the environment has set
// it: weights are read a fifth faster. Not for training, where keeping freed memory counts for more and aligned pieces
// break it up.
void use_large_pages();

}  // namespace fovea
