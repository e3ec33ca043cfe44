// Stands before LibTorch's header of this name while fovea itself is compiled. torch/nn/module.h names the two classes
// only; the header that defines them brings all of TorchScript, 10 s for a precompiled header and 2 s for each file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize
