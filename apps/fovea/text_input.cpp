// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/text_input.h"

#include <unistd.h>

#include <iostream>
#include <sstream>
#include <utility>

#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

class TextBatches {
 public:
  TextBatches(size_t together, const std::function<void(const std::vector<TextLine>&)>& use)
      : together_(together), use_(use) {}

  // False: stop.
  bool add(std::string text, std::string source) {
    check_utf8(text, source);
    waiting_.push_back({std::move(text), std::move(source)});
    return waiting_.size() < together_ || flush();
  }
  bool add_lines(std::istream& lines, const std::string& source) {
    int64_t number = 0;
    for (std::string line; next_line(lines, line, number);)
      if (!add(std::move(line), detail::concat(source, number))) return false;
    return true;
  }
  // A signal stops the work, not the wait for the next line, which it ends at once.
  bool flush() {
    const StopSignals catch_signals;
    if (!waiting_.empty()) use_(std::exchange(waiting_, {}));
    return !StopSignals::wanted();
  }

 private:
  size_t together_;
  const std::function<void(const std::vector<TextLine>&)>& use_;
  std::vector<TextLine> waiting_;
};

}  // namespace

bool next_line(std::istream& lines, std::string& line, int64_t& number) {
  if (!std::getline(lines, line)) return false;
  if (line.ends_with('\r')) line.pop_back();
  if (++number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark
  return true;
}

void TextInput::declare(CommandLine& line) {
  line.positional("TEXT", texts_, "texts; without, and without --file: lines of standard input");
  line.option("-f,--file", "FILE", files_, "a text a line (may be repeated)");
}

void TextInput::each(size_t together, const std::function<void(const std::vector<TextLine>&)>& use) const {
  FOVEA_CHECK_CONFIG(texts_.empty() || files_.empty(), "--file and texts on the command line exclude each other");
  const bool typed = texts_.empty() && files_.empty() && is_terminal(STDIN_FILENO);
  TextBatches batches(typed ? 1 : together, use);
  int64_t number = 0;
  for (const std::string& text : texts_)
    if (!batches.add(text, detail::concat("text ", ++number))) return;
  for (const std::string& file : files_) {
    std::istringstream lines(read_text(file, "file of texts"));
    if (!batches.add_lines(lines, file + ":")) return;
  }
  if (texts_.empty() && files_.empty() && !batches.add_lines(std::cin, "standard input, line ")) return;
  batches.flush();
}

}  // namespace fovea
