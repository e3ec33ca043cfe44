// A model that reads and its tokenizer, from one folder: sentence vectors, classes, masked words, answers.
//
//   auto bert = load_pretrained("minilm");                                              // a TextEncoder
//   Tensor e = bert.embed({"That is a happy person", "Today is a sunny day"});          // [2, 384]
//
// Texts of similar length run together, so that little is computed for padding; results stand in the order of the
// texts and do not depend on each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct Classified {
  std::string label;          // the best; regression: its only one
  std::vector<float> scores;  // in the order of the model's labels
};

struct ClassifiedToken {
  std::string token;
  std::pair<int64_t, int64_t> offset;  // code points of the text
  Classified is;
};

struct FilledMask {
  int64_t mask = 0;   // which mask of the text, from 0 on
  std::string token;  // as text
  int64_t id = 0;
  float score = 0;  // probability
};

struct AnswerSpan {
  std::string text;                    // the span, as the context has it, without blanks around it
  std::pair<int64_t, int64_t> offset;  // code points of the context
  float score = 0;                     // probability of its begin times that of its end
};

struct AnswerOptions {
  int64_t top_k = 1;
  int64_t longest = 15;  // tokens
  // A span is widened to the words (Encoding::word_ids) of its first and last token; its score stays. In a script
  // without blanks that may be the whole sentence.
  bool whole_words = true;
  // Tokens that two windows share, where question and context are longer than the model reads; at most half of a
  // window.
  int64_t overlap = 64;
};

struct TextEncoder {
  using Texts = std::vector<std::string>;
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  EncoderModel model;  // in evaluation mode, or its dropout is at work
  Tokenizer tokenizer;
  // How embed() makes one vector of a text's tokens: "mean", or "cls" (the first token's).
  std::string pool = "mean";
  bool normalize = false;       // to length 1
  int64_t batch_tokens = 2048;  // tokens of the texts that run together, padding included

  // config.json, model.safetensors, tokenizer.json, and of a sentence model modules.json, which says `pool` and
  // `normalize`. Error(kInput) where one is missing, they do not fit each other, or the model does not read texts.
  static TextEncoder load(const std::filesystem::path& folder);
  // Writes the same; modules.json for a model without a head.
  void save(const std::filesystem::path& folder) const;

  // [N, C]
  Tensor embed(const Texts& texts) const;
  // The last hidden states of each text, [T, C] with one row a token of tokenizer.encode(text, {.pad = false}).
  std::vector<Tensor> embed_tokens(const Texts& texts) const;

  // For a model with a classifier (of pairs: a text and what belongs to it). Error(kArgument) for another model.
  std::vector<Classified> classify(const Texts& texts) const;
  std::vector<Classified> classify(const Pairs& pairs) const;
  // For a model that classifies tokens; special tokens are left out.
  std::vector<std::vector<ClassifiedToken>> classify_tokens(const Texts& texts) const;

  // For a masked language model: the `top_k` best tokens for each mask of the text, best first. Error(kInput) for a
  // text without a mask.
  std::vector<FilledMask> fill_mask(std::string_view text, int64_t top_k = 5) const;
  std::vector<std::vector<FilledMask>> fill_masks(const Texts& texts, int64_t top_k = 5) const;
  std::string mask_token() const;  // how a mask is spelled: "[MASK]", "<mask>"

  // For a model that answers questions: the spans of `context` that answer best, best first (fewer than top_k where
  // there are no more). Probabilities are over the context's tokens and the first of all, which stands for "no answer".
  // Error(kInput) for a question that leaves the context no room, or a context without tokens.
  std::vector<AnswerSpan> answer(std::string_view question, std::string_view context,
                                 const AnswerOptions& options = {}) const;
  // Of pairs of a question and its context.
  std::vector<std::vector<AnswerSpan>> answers(const Pairs& asked, const AnswerOptions& options = {}) const;
};

// The content of a folder as T has it: load_pretrained<CausalLM>("runs/kjv/best").
template <class T = TextEncoder>
T load_pretrained(const std::filesystem::path& folder) {
  return T::load(folder);
}

}  // namespace fovea
