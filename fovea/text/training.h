// Tokenizers made from text. All are saved as a tokenizer.json that the Python package `tokenizers` loads and encodes
// with equally.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/tokenizer.h"

namespace fovea {

struct CharacterTrainingOptions {
  std::string unk_token = "<unk>";          // id 0: what the text does not hold
  std::vector<std::string> special_tokens;  // the ids behind it, in this order
  int64_t min_frequency = 1;                // rarer characters get no token of their own
};

// One token for each character of `text`, in order of code points, behind the special tokens. Error(kInput) for text
// that is empty or not UTF-8, Error(kConfig) for a token that is empty or given twice.
Tokenizer train_characters(std::string_view text, const CharacterTrainingOptions& options = {});

struct BpeTrainingOptions {
  int64_t vocab_size = 30000;  // special tokens and the 256 bytes included; fewer if the text gives no more
  int64_t min_frequency = 0;   // rarer pairs are not merged
  std::vector<std::string> special_tokens;  // the first ids, in this order
  // A pattern whose matches are words of their own, before GPT-2's; "": none. With "\\p{Lo}" each Chinese character
  // becomes one token, and none becomes part of another.
  std::string isolate;
};

// Byte-level byte-pair encoding as GPT-2 has it: words by its splitting pattern, every byte in the alphabet; the most
// frequent pair merges next, among equals the one with the smallest ids. Texts are cut apart from each other. Merges
// and ids are those of the package's BpeTrainer with the initial alphabet of its ByteLevel and the same options. Errors
// as above; Error(kConfig) also for a vocab_size that the special tokens and bytes exceed, and for `isolate`.
Tokenizer train_bpe(const std::vector<std::string_view>& texts, const BpeTrainingOptions& options = {});

struct WordTrainingOptions {
  int64_t vocab_size = 8000;                // special tokens included; the rarest words get no token of their own
  std::string unk_token = "[UNK]";          // stands for them; the first id behind the special tokens
  std::vector<std::string> special_tokens;  // the first ids, in this order
  bool lowercase = true;                    // and without accents
};

// One token for each of the most frequent words, as BERT cuts and cleans text (marks and Chinese characters are words
// of their own), the most frequent first, equal ones in order of their bytes: a WordPiece tokenizer without pieces.
// Errors as above; Error(kConfig) for a vocab_size that leaves no room for a word.
Tokenizer train_words(std::string_view text, const WordTrainingOptions& options = {});

// The same tokenizer with two of its tokens around every text, as BERT has it: "[CLS] a [SEP]", and for a pair "[CLS] a
// [SEP] b [SEP]" with type 1 from b on; "" puts nothing there. Error(kConfig) for a token that it does not have.
Tokenizer enclose_texts(const Tokenizer& tokenizer, const std::string& first, const std::string& last);

// The same tokenizer with texts cut at their end to `max_length` tokens, those around them included; of two texts the
// longer one first. Error(kConfig) for a length below 1.
Tokenizer shorten_texts(const Tokenizer& tokenizer, int64_t max_length);

}  // namespace fovea
