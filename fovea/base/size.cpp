// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/size.h"

#include <unistd.h>

#include "fovea/base/check.h"

namespace fovea {

void check_parameters(const char* what, double count) {
  static const double memory = double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  const double needed = count * sizeof(float);
  FOVEA_CHECK_CONFIG(needed <= memory, what, ": ", count, " parameters need ", needed * 1e-9, " GB of memory, this machine has ",
                     memory * 1e-9, " GB");
}

}  // namespace fovea
