// Plain text files as training data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

// All files one after another, each beginning a line. Error(kInput) naming the file: missing, not UTF-8, or nothing but blanks.
std::string read_texts(const std::vector<std::string>& paths, std::string_view what = "training text");

// Lines without their ends ("\n" or "\r\n"); views into `text`. A last line without an end counts.
std::vector<std::string_view> split_lines(std::string_view text);

// Without the white space (Unicode's) at both ends.
std::string_view trimmed(std::string_view text);

// The first part and the last `fraction` (0 … 1) of the text, cut at the end of a line. Error(kInput) naming `source`
// where either part would be empty.
std::pair<std::string_view, std::string_view> split_tail(std::string_view text, double fraction,
                                                         std::string_view source);

}  // namespace fovea
