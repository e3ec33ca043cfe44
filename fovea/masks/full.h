// Everything is visible: the neutral mask, here so that ~full() (nothing is visible) has a name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/masks/mask.h"

namespace fovea::masks {

inline Mask full() { return {}; }

}  // namespace fovea::masks
