// What turns tokens back into text. A decoder is an added file: derive, write a reader, and name it in components.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/text/json_text.h"

namespace fovea::text {

// A stretch of text being decoded: at first one for each token.
struct DecodedPart {
  std::string text;
  bool literal = false;  // an added token, which stands in the text as it is
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Texts to texts; the result is joined without blanks. May produce bytes that are not UTF-8: they are mended last.
  virtual void apply(std::vector<DecodedPart>& parts) const = 0;
  // Whether each token's text depends on that token alone, so that a stream may show it at once.
  virtual bool local() const { return true; }
  // Where it is not local: whether the text up to and with `last` stays as it is, whatever token follows.
  virtual bool settled(const DecodedPart& /*last*/) const { return true; }
};

using DecoderReader = std::unique_ptr<Decoder> (*)(Fields& fields);

// By the "type" of a tokenizer.json object; null for a JSON null. Error(kInput) naming a type that is not supported.
std::unique_ptr<Decoder> read_decoder(const nlohmann::json& object, const std::string& where);

// The readers that components.cpp lists.
std::unique_ptr<Decoder> read_byte_level_decoder(Fields& fields);
std::unique_ptr<Decoder> read_fuse(Fields& fields);
std::unique_ptr<Decoder> read_replace_decoder(Fields& fields);
std::unique_ptr<Decoder> read_byte_fallback(Fields& fields);
std::unique_ptr<Decoder> read_strip_decoder(Fields& fields);
std::unique_ptr<Decoder> read_bpe_decoder(Fields& fields);
std::unique_ptr<Decoder> read_metaspace_decoder(Fields& fields);
std::unique_ptr<Decoder> read_wordpiece_decoder(Fields& fields);
std::unique_ptr<Decoder> read_decoder_sequence(Fields& fields);

// `bytes` with U+FFFD for each part that can be no character (the longest proper start of one, else a single byte).
std::string mend_utf8(std::string_view bytes);

}  // namespace fovea::text
