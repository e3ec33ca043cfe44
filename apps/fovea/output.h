// Standard output, where results go: buffered, and checked, so that a full disk is an error and not a short file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fovea {

// Thrown when whoever read our output went away: `fovea … | head`. Not an error: main ends quietly.
struct BrokenPipe {};

class Output {
 public:
  void write(std::string_view text);
  void line(std::string_view text);
  void json(const nlohmann::json& value);  // one object a line
  void flush();

 private:
  std::string waiting_;
};
Output& output();

// The library's messages on this topic appear on standard error too, beside those that FOVEA_LOG names. Before any of
// them is written, and before threads.
void show_log(const std::string& topic);

// A line on standard error. Never fails: a closed terminal must not stop a training run.
void tell(std::string_view line);

}  // namespace fovea
