// What happens behind the model: special tokens around the text, offsets without blanks, truncation and padding.
// A post-processor is an added file: derive, write a reader, and name it in components.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/text/json_text.h"
#include "fovea/text/tokenizer.h"

namespace fovea::text {

// A token that is put around texts.
struct SpecialToken {
  std::string token;
  int64_t id = 0;
};

// Appends all columns. An encoding with ids only (the fast path leaves the other columns empty) appends ids only.
void append(Encoding& to, const Encoding& from);
// Appends a token that is not in the text; to all columns where `detailed`.
void append_special(Encoding& to, const SpecialToken& token, int64_t type_id, bool detailed);
void set_type(Encoding& encoding, int64_t type_id);

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // How many tokens process() will add.
  virtual size_t added_tokens(bool /*pair*/) const { return 0; }
  // In: one encoding for each text, its type ids set to 0 and 1. Out: parts to be joined in order. `detailed` false:
  // they hold ids only.
  virtual void process(std::vector<Encoding>& parts, bool add_special_tokens, bool detailed) const = 0;
};

using PostProcessorReader = std::unique_ptr<PostProcessor> (*)(Fields& fields);

// By the "type" of a tokenizer.json object; null for a JSON null. Error(kInput) naming a type that is not supported.
std::unique_ptr<PostProcessor> read_post_processor(const nlohmann::json& object, const std::string& where);

// The readers that components.cpp lists.
std::unique_ptr<PostProcessor> read_byte_level_trimmer(Fields& fields);
std::unique_ptr<PostProcessor> read_template(Fields& fields);
std::unique_ptr<PostProcessor> read_processor_sequence(Fields& fields);
std::unique_ptr<PostProcessor> read_bert_processor(Fields& fields);
std::unique_ptr<PostProcessor> read_roberta_processor(Fields& fields);

struct Truncation {
  enum class Strategy { kLongestFirst, kOnlyFirst, kOnlySecond } strategy = Strategy::kLongestFirst;
  size_t max_length = 0;
  bool from_left = false;
};
Truncation read_truncation(const nlohmann::json& object, const std::string& where);
// Shortens the texts so that they and `added` tokens fit. Error(kInput) where the file's strategy cannot do that.
void truncate(const Truncation& truncation, size_t added, std::vector<Encoding>& parts, const std::string& where);

struct Padding {
  size_t length = 0;       // 0: to the longest of a batch, which for one text is itself
  size_t multiple_of = 0;  // 0: any length
  bool on_left = false;
  SpecialToken token;
  int64_t type_id = 0;
};
Padding read_padding(const nlohmann::json& object, const std::string& where);
void pad(const Padding& padding, Encoding& encoding, bool detailed);

}  // namespace fovea::text
