// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/text_lines.h"

#include <algorithm>
#include <cstddef>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"

namespace fovea {

std::string read_texts(const std::vector<std::string>& paths, std::string_view what) {
  std::string out;
  for (const std::string& path : paths) {
    const std::string text = read_text(path, what);
    FOVEA_CHECK_INPUT(text.find_first_not_of(" \t\r\n") != std::string::npos, path, ": the text is empty");
    if (!out.empty() && out.back() != '\n') out += '\n';  // the last line of one file and the first of the next are two
    out += text;
  }
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    out.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (is_white_space(decode_utf8(text, at))) continue;
    begin = std::min(begin, start), end = at;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::pair<std::string_view, std::string_view> split_tail(std::string_view text, double fraction,
                                                         std::string_view source) {
  FOVEA_CHECK_CONFIG(fraction > 0 && fraction < 1, "validation_fraction is ", fraction, ", must lie between 0 and 1");
  const size_t wanted = text.size() - size_t(fraction * double(text.size()));
  const size_t newline = text.find('\n', wanted == 0 ? 0 : wanted - 1);
  const size_t cut = newline == std::string_view::npos ? text.size() : newline + 1;
  FOVEA_CHECK_INPUT(
      cut < text.size(), source, ": the last ", 100 * fraction,
      " % hold no whole line, so the validation split is empty; give a validation file or a larger fraction");
  return {text.substr(0, cut), text.substr(cut)};
}

}  // namespace fovea
