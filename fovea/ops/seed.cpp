// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/seed.h"

#include <ATen/CPUGeneratorImpl.h>

namespace fovea {

int64_t draw_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return int64_t(at::check_generator<at::CPUGeneratorImpl>(generator)->random64());
}

}  // namespace fovea
