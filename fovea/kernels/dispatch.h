// Which instruction set the kernels run on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fovea/kernels/isa.h"

namespace fovea {

// All that this build holds, fastest first.
const std::vector<const Isa*>& all_isas();
// The features that this processor lacks for it, or "".
std::string isa_lacks(const Isa& isa);
// Why it is not chosen unasked though the processor has all that it needs, or "".
std::string isa_passed_over(const Isa& isa);
// The fastest that this processor can run, or the one that FOVEA_ISA names (read once). Throws Error(kConfig) if that
// is unknown or cannot run here.
const Isa& isa();

}  // namespace fovea
