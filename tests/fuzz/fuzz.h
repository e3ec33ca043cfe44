// A fuzz target is a reader and some valid inputs; the driver damages the inputs and watches the reader: it may accept
// what it gets or throw fovea::Error. Another exception, an internal error, a crash, 10 s of work or a giant allocation
// ends the program with exit code 1, and leaves the input in a file beside it.
//
//   build/release/tests/fuzz                         the targets' names
//   build/release/tests/fuzz json                    FOVEA_FUZZ_SECONDS (3), FOVEA_FUZZ_SEED (1)
//   build/release/tests/fuzz json fuzz.json.failed   reads one input again
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::fuzz {

struct Target {
  std::vector<std::string> corpus;  // valid inputs
  std::vector<std::string> words;   // what else may be inserted: keys, names of types
  std::function<void(const std::string& input)> read;
};

// A file ends with `static const Registered json("json", json_target);`.
struct Registered {
  Registered(const char* name, Target (*make)());
};

// A file name in a folder that goes away with the process.
std::filesystem::path scratch(const std::string& name);
void put(const std::filesystem::path& path, std::string_view bytes);
// Promises of a reader about what it accepted: std::logic_error with the message where `kept` is false.
void expect(bool kept, const std::string& message);

}  // namespace fovea::fuzz
