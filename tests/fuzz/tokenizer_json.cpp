// tokenizer.json: trained here, and by hand with one of each component.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/training.h"
#include "tests/fuzz/tokens.h"

namespace fovea::fuzz {
namespace {

constexpr const char* kBert = R"({"version": "1.0",
"truncation": {"direction": "Right", "max_length": 20, "strategy": "LongestFirst", "stride": 0},
"padding": {"strategy": {"Fixed": 24}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0,
 "pad_token": "[PAD]"},
"added_tokens": [{"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false,
 "normalized": false, "special": true},
 {"id": 4, "content": "[MASK]", "single_word": true, "lstrip": true, "rstrip": true, "normalized": true,
 "special": true}],
"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
 "lowercase": true},
"pre_tokenizer": {"type": "BertPreTokenizer"},
"post_processor": {"type": "TemplateProcessing",
 "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
 "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
 {"Sequence": {"id": "B", "type_id": 1}}],
 "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3],
 "tokens": ["[SEP]"]}}},
"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
 "max_input_chars_per_word": 100,
 "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "in": 5, "the": 6, "god": 7, "##ning": 8,
 "a": 9, "##a": 10}}})";

constexpr const char* kPieces = R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend",
 "prepend": "_"},
 {"type": "Replace", "pattern": {"Regex": "\\s+|(?:a|b){2,3}"}, "content": "_"}, {"type": "NFKD"},
 {"type": "StripAccents"}, {"type": "NFC"},
 {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": false}]},
"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
 {"type": "Punctuation", "behavior": "Isolated"},
 {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\r\\n\\p{L}]?\\p{L}+(?!\\S)|\\p{N}{1,3}|_"},
 "behavior": "MergedWithPrevious", "invert": false}]},
"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true,
 "add_prefix_space": false},
"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
 {"type": "ByteFallback"},
 {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
"model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
 "end_of_word_suffix": null, "fuse_unk": true,
 "byte_fallback": true, "ignore_merges": false, "vocab": {"<s>": 0, "<unk>": 1, "</s>": 2, "_": 3, "a": 4, "e": 5,
 "n": 6, "in": 7, "i": 8, "<0xF0>": 9},
 "merges": [["i", "n"]]}})";

constexpr const char* kSuffixed = R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder",
 "suffix": "</w>"},
"model": {"type": "BPE", "unk_token": "?", "continuing_subword_prefix": "@", "end_of_word_suffix": "</w>",
 "vocab": {"?": 0, "a": 1, "@a": 2,
 "@a</w>": 3, "aa": 4, "a</w>": 5, "g": 6, "@o": 7, "@d</w>": 8}, "merges": ["a @a"]}})";

// The compiled rules: A to x, B to nothing, C to yz.
constexpr const char* kUnigram = R"({"added_tokens": [{"id": 1, "content": "</s>", "single_word": false,
 "lstrip": false, "rstrip": true, "normalized": false, "special": true}],
"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "Precompiled", "precompiled_charsmap":
 "IAAAAAAAAQBBFQAAQh0AAEMVAAAAAACAAgAAgAMAAIAAAAAAeAAAeXoA"}]},
"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace",
 "replacement": "▁", "prepend_scheme": "first", "split": true}]},
"post_processor": {"type": "TemplateProcessing",
 "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
 "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
 "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
"decoder": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
"model": {"type": "Unigram", "unk_id": 2, "byte_fallback": true, "vocab": [["<pad>", 0], ["</s>", 0.0], ["<unk>", 0],
 ["▁the", -2.5], ["▁", -3.0], ["in", -3.25], ["n", -4], ["ing", -4.5], ["▁God", -5e0], ["aaa", -6], ["a", -9.75],
 ["<0xC3>", -12], ["<0x89>", -12], ["x", -7]]}})";

}  // namespace

static Target tokenizer_json_target() {
  const char* text = "In the beginning God created the heaven and the earth.";
  return {.corpus = {train_characters(text).to_json(),
                     train_bpe({text}, {.vocab_size = 280, .special_tokens = {"<|endoftext|>"}}).to_json(), kBert,
                     kPieces, kSuffixed, kUnigram},
          .words = {"(a*)*", "(a|a)*b", "(?=", "{1000}", "{0,9}", "\\\\p{L}", "[^", "*", "+", "?", "|",
                    "\"type\": \"Sequence\"", "\"ByteLevel\"", "\"Metaspace\"", "\"Whitespace\"", "\"Unigram\"", "##",
                    "<0x0A>", "\"Fixed\": "},
          .read = [](const std::string& input) { expect_consistent(Tokenizer::from_json(input)); }};
}

static const Registered tokenizer_json("tokenizer_json", tokenizer_json_target);

}  // namespace fovea::fuzz
