// No position encoding: attention sees a set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/positions/position.h"
