// sentencepiece's compiled normalisation rules, as Unigram files carry them: a double-array trie of what is replaced,
// and the replacements.
//
//   bytes 0…3      size of the trie in bytes, little endian like all that follows
//   the trie       32-bit units, see charsmap.cpp
//   the rest       UTF-8: replacements, each ended by a zero; the trie has where they begin
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

class Charsmap {
 public:
  // Error(kInput) `source: …` for what is cut off or points outside.
  Charsmap(std::string_view bytes, std::string_view source);

  // What the shortest rule that starts `text` replaces it by, or nothing.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

// The bytes that base64 text (RFC 4648, padded) stands for. Error(kInput) `source: …` with the place of a bad
// character.
std::string decode_base64(std::string_view text, std::string_view source);

}  // namespace fovea::text
