// Stands before LibTorch's header of this name while fovea's modules are compiled: torch/types.h includes it for no use
// of its own, and its templates cost each file another second. ops/schema.cpp, which registers operators, reads the
// real one.
// SPDX-License-Identifier: Apache-2.0
#pragma once
