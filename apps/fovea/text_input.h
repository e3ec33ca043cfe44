// Texts that a verb works on: words of the command line, lines of files, or lines of standard input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "apps/fovea/command_line.h"

namespace fovea {

struct TextLine {
  std::string text, source;  // where it came from, for errors
};

// The next line without its end (LF or CR LF) and, of the first one, without a byte order mark; false at the end.
bool next_line(std::istream& lines, std::string& line, int64_t& number);

class TextInput {
 public:
  void declare(CommandLine& line);
  // Calls use() with up to `together` texts at a time, in order, checked to be UTF-8; with one at a time where they
  // come from a terminal. Stops where a signal asked to (signals.h).
  void each(size_t together, const std::function<void(const std::vector<TextLine>&)>& use) const;

 private:
  std::vector<std::string> texts_, files_;
};

}  // namespace fovea
