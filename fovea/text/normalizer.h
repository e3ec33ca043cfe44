// What changes text before it is cut: Unicode forms, case, blanks. A normaliser is an added file: derive, write a
// reader, and name it in components.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fovea/text/json_text.h"
#include "fovea/text/piece.h"

namespace fovea::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

using NormalizerReader = std::unique_ptr<Normalizer> (*)(Fields& fields);

// Unicode's NFD, and lower case, for normalisers that have them as a step.
void decompose_canonically(AlignedText& text);
void lowercase(AlignedText& text);

// By the "type" of a tokenizer.json object; null for a JSON null. Error(kInput) naming a type that is not supported.
std::unique_ptr<Normalizer> read_normalizer(const nlohmann::json& object, const std::string& where);

// The readers that components.cpp lists.
std::unique_ptr<Normalizer> read_nfc(Fields& fields);
std::unique_ptr<Normalizer> read_nfd(Fields& fields);
std::unique_ptr<Normalizer> read_nfkc(Fields& fields);
std::unique_ptr<Normalizer> read_nfkd(Fields& fields);
std::unique_ptr<Normalizer> read_lowercase(Fields& fields);
std::unique_ptr<Normalizer> read_bert_normalizer(Fields& fields);
std::unique_ptr<Normalizer> read_strip(Fields& fields);
std::unique_ptr<Normalizer> read_strip_accents(Fields& fields);
std::unique_ptr<Normalizer> read_nmt(Fields& fields);
std::unique_ptr<Normalizer> read_precompiled(Fields& fields);
std::unique_ptr<Normalizer> read_prepend(Fields& fields);
std::unique_ptr<Normalizer> read_replace(Fields& fields);
std::unique_ptr<Normalizer> read_normalizer_sequence(Fields& fields);

}  // namespace fovea::text
