// What both fuzz programs of tokenizers ask of one that was accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fovea/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {

inline void expect_consistent(const Tokenizer& tokenizer) {
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json());
  const std::string mixed = " In the beginning God created 2 HEAVENS… É e\u0301 \xF0\x9F\x98\x80 日本 <s>[MASK]\n";
  for (const std::string& text : {std::string(), mixed, std::string(300, 'a')}) {
    const Encoding encoding = tokenizer.encode(text);
    const size_t count = encoding.ids.size();
    expect(encoding.tokens.size() == count && encoding.offsets.size() == count && encoding.word_ids.size() == count &&
               encoding.type_ids.size() == count && encoding.attention_mask.size() == count &&
               encoding.special_tokens_mask.size() == count,
           "columns of different length");
    expect(tokenizer.ids(text) == encoding.ids, "ids() and encode() differ");
    expect(again.ids(text) == encoding.ids, "other ids when written and read again");
    byte_offsets(text, encoding.offsets);
    tokenizer.decode(encoding.ids);
    tokenizer.decode(encoding.ids, /*skip_special_tokens=*/false);
    tokenizer.encode_pair(text, "God");
  }
}

}  // namespace fovea::fuzz
