// The names of tokenizer.json and who reads them. A new component is its own file and one line here.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/text/decoder.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/post_processor.h"
#include "fovea/text/pre_tokenizer.h"
#include "fovea/text/tokenizer_file.h"

namespace fovea::text {
namespace {

const std::map<std::string, NormalizerReader> kNormalizers = {
    {"BertNormalizer", read_bert_normalizer},
    {"Lowercase", read_lowercase},
    {"NFC", read_nfc},
    {"NFD", read_nfd},
    {"NFKC", read_nfkc},
    {"NFKD", read_nfkd},
    {"Nmt", read_nmt},
    {"Precompiled", read_precompiled},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Sequence", read_normalizer_sequence},
    {"Strip", read_strip},
    {"StripAccents", read_strip_accents},
};

const std::map<std::string, ModelReader> kModels = {
    {"BPE", read_bpe},
    {"Unigram", read_unigram},
    {"WordPiece", read_wordpiece},
};

const std::map<std::string, PreTokenizerReader> kPreTokenizers = {
    {"BertPreTokenizer", read_bert_splitter},
    {"ByteLevel", read_byte_level_splitter},
    {"Digits", read_digits},
    {"Metaspace", read_metaspace_splitter},
    {"Punctuation", read_punctuation},
    {"Sequence", read_splitter_sequence},
    {"Split", read_split},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
};

const std::map<std::string, PostProcessorReader> kPostProcessors = {
    {"BertProcessing", read_bert_processor},       {"ByteLevel", read_byte_level_trimmer},
    {"RobertaProcessing", read_roberta_processor}, {"Sequence", read_processor_sequence},
    {"TemplateProcessing", read_template},
};

const std::map<std::string, DecoderReader> kDecoders = {
    {"BPEDecoder", read_bpe_decoder},       {"ByteFallback", read_byte_fallback},
    {"ByteLevel", read_byte_level_decoder}, {"Fuse", read_fuse},
    {"Metaspace", read_metaspace_decoder},  {"Replace", read_replace_decoder},
    {"Sequence", read_decoder_sequence},    {"Strip", read_strip_decoder},
    {"WordPiece", read_wordpiece_decoder},
};

template <class Reader>
Reader find(const std::map<std::string, Reader>& readers, const char* kind, const std::string& type,
            const std::string& where) {
  const auto reader = readers.find(type);
  if (reader != readers.end()) return reader->second;
  std::vector<std::string> names;
  for (const auto& [name, ignored] : readers) names.push_back(name);
  throw Error(ErrorKind::kInput,
              detail::concat(where, ": the ", kind, " \"", type, "\" is not supported", suggestion(type, names)));
}

template <class Reader>
auto read(const std::map<std::string, Reader>& readers, const char* kind, const nlohmann::json& object,
          const std::string& where) -> decltype(std::declval<Reader>()(std::declval<Fields&>())) {
  if (object.is_null()) return nullptr;
  // A sequence in a sequence in a sequence … must not exhaust the stack.
  static thread_local int depth = 0;
  struct Nested {
    Nested() { ++depth; }
    ~Nested() { --depth; }
  } nested;
  FOVEA_CHECK_INPUT(depth <= 16, where, ": components nest deeper than 16");
  Fields fields(object, where);
  auto component = find(readers, kind, fields.string("type"), where)(fields);
  fields.finish();
  return component;
}

}  // namespace

std::unique_ptr<Model> read_model(TokenizerFile& file, bool byte_level) {
  const std::string where = file.source + ": model";
  const auto section = file.top.find("model");
  FOVEA_CHECK_INPUT(section != file.top.end(), file.source, ": \"model\" is missing");
  Fields fields(*section, where);
  // Files of the first versions name no type; then only BPE has merges, and only Unigram scores.
  const std::string type = fields.string("type", file.tables.scored           ? "Unigram"
                                                 : file.tables.merges.empty() ? ""
                                                                              : "BPE");
  FOVEA_CHECK_INPUT(!type.empty(), where, ": \"type\" is missing");
  auto model = find(kModels, "model", type, where)(fields, file.tables, byte_level);
  fields.finish();
  return model;
}

std::unique_ptr<Normalizer> read_normalizer(const nlohmann::json& object, const std::string& where) {
  return read(kNormalizers, "normalizer", object, where);
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const nlohmann::json& object, const std::string& where) {
  return read(kPreTokenizers, "pre-tokenizer", object, where);
}

std::unique_ptr<PostProcessor> read_post_processor(const nlohmann::json& object, const std::string& where) {
  return read(kPostProcessors, "post-processor", object, where);
}

std::unique_ptr<Decoder> read_decoder(const nlohmann::json& object, const std::string& where) {
  return read(kDecoders, "decoder", object, where);
}

}  // namespace fovea::text
