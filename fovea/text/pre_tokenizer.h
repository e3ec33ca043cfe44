// What cuts text into the words that a model sees one at a time. A pre-tokenizer is an added file: derive, write a
// reader, and name it in components.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fovea/text/json_text.h"
#include "fovea/text/piece.h"

namespace fovea::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Hands the words of `piece`, none of them empty, to `next` in order. `tracked`: spans will be asked for, so `piece`
  // has them.
  virtual void split(const Piece& piece, bool tracked, PieceSink& next) const = 0;
  // Whether the model is to read the words as bytes in GPT-2's alphabet. Nothing can follow such a stage.
  virtual bool byte_level() const { return false; }
  // Whether it looks at spans: they are then there whatever `tracked` says.
  virtual bool needs_spans() const { return false; }
};

using PreTokenizerReader = std::unique_ptr<PreTokenizer> (*)(Fields& fields);

// By the "type" of a tokenizer.json object; null for a JSON null. Error(kInput) naming a type that is not supported.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const nlohmann::json& object, const std::string& where);

// What becomes of the matches of a splitting pattern.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior read_split_behavior(Fields& fields, std::string_view key);

// The first match at or after a byte; begin is npos where there is none.
using NextMatch = std::function<Piece::Range(std::string_view text, size_t from)>;
// Splits by matches; `invert` swaps matches and what lies between them.
void split_by(const Piece& piece, const NextMatch& next_match, SplitBehavior behavior, bool invert, PieceSink& next);

// "ByteLevel", "Split", "Sequence" … : the readers that components.cpp lists.
std::unique_ptr<PreTokenizer> read_byte_level_splitter(Fields& fields);
std::unique_ptr<PreTokenizer> read_split(Fields& fields);
std::unique_ptr<PreTokenizer> read_splitter_sequence(Fields& fields);
std::unique_ptr<PreTokenizer> read_whitespace(Fields& fields);
std::unique_ptr<PreTokenizer> read_whitespace_split(Fields& fields);
std::unique_ptr<PreTokenizer> read_digits(Fields& fields);
std::unique_ptr<PreTokenizer> read_punctuation(Fields& fields);
std::unique_ptr<PreTokenizer> read_metaspace_splitter(Fields& fields);
std::unique_ptr<PreTokenizer> read_bert_splitter(Fields& fields);

}  // namespace fovea::text
