// Texts as the words that BLEU counts. The ways to cut are those of the package sacrebleu (Post 2018), under its names,
// and give the same words:
//
//   13a    words and marks of languages with blanks, as WMT's scoring has them
//   zh     every Chinese character a word, the rest as 13a
//   char   every character but blanks a word
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

enum class WordSplit { k13a, kZh, kChar };
// Error(kConfig) for a name that is not in the table.
WordSplit word_split(const std::string& name);
std::string_view name_of(WordSplit split);

// `text` is valid UTF-8.
std::vector<std::string> split_words(std::string_view text, WordSplit split);

// kZh where more than half of the characters, blanks left out, are what it cuts apart; otherwise k13a.
WordSplit likely_split(const std::vector<std::string>& texts);

// The characters that are no blanks.
std::u32string visible_characters(std::string_view text);

}  // namespace fovea
