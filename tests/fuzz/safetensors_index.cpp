// The index of a folder of shards, beside shards that are good.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "fovea/io/files.h"
#include "fovea/io/safetensors_folder.h"
#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {

static Target safetensors_index_target() {
  const auto folder = scratch("model"), index = folder / "model.safetensors.index.json";
  std::filesystem::create_directory(folder);
  write_safetensors_folder(folder, {{"a", at::ones({4})}, {"b", at::ones({4})}, {"c", at::ones({4})}},
                           /*max_shard_bytes=*/32);
  return {.corpus = {read_file(index)},
          .words = {"\"weight_map\"", "\"a\"", "\"c\"", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors", "../", "/", "model.safetensors.index.json", "\"\": \"\","},
          .read = [=](const std::string& input) {
            put(index, input);
            const SafetensorsFolder file(folder);
            for (const auto& name : file.names()) file.tensor(name).clone();
          }};
}

static const Registered safetensors_index("safetensors_index", safetensors_index_target);

}  // namespace fovea::fuzz
