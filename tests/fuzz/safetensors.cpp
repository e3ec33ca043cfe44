// One safetensors file, and every tensor in it.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/safetensors.h"

#include <ATen/ATen.h>

#include "fovea/io/files.h"
#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {

static Target safetensors_target() {
  const auto path = scratch("model.safetensors");
  const auto bytes_of = [&](const NamedTensors& tensors, const Metadata& metadata) {
    write_safetensors(path, tensors, metadata);
    return read_file(path);
  };
  return {
      .corpus = {bytes_of({{"a", at::arange(6, at::kFloat).view({2, 3})}, {"b", at::ones({4}, at::kBool)}},
                          {{"format", "pt"}}),
                 bytes_of({{"empty", at::empty({0, 3})}, {"scalar", at::ones({}, at::kHalf)}, {"long", at::arange(3)}},
                          {}),
                 bytes_of({}, {})},
      .words = {"\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"__metadata__\"", "\"F64\"", "\"BF16\"", "\"BOOL\"",
                "[0,0]", "[0,24]"},
      .read = [path](const std::string& input) {
        put(path, input);
        const SafetensorsFile file(path);
        for (const auto& name : file.names()) file.tensor(name).clone();  // reads every byte
      }};
}

static const Registered safetensors("safetensors", safetensors_target);

}  // namespace fovea::fuzz
