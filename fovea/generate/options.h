// What a caller may ask of generation, as one visited configuration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/generate/logit_rules.h"

namespace fovea {

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  int64_t min_new_tokens = 0;     // no end token before these
  double temperature = 0;         // 0 takes the best token; above 0 draws one, from logits divided by it
  int64_t top_k = 0;              // draws among the k best; 0: all
  double top_p = 1;               // draws among the fewest best that together reach p; 0 keeps the best one, 1 all
  double min_p = 0;               // draws among tokens at least this fraction as likely as the best; 0: all
  double repetition_penalty = 1;  // above 1 makes tokens of prompt and answer less likely
  int64_t no_repeat_ngram = 0;    // no run of n tokens appears twice in prompt and answer; 0: off
  int64_t seed = -1;              // row b draws with seed + b; −1: LibTorch's generator gives the seed

  int64_t beams = 1;          // above 1: beam search
  int64_t results = 1;        // best beams returned for each prompt, at most `beams`
  double length_penalty = 1;  // a beam's score is its log-probability / length^penalty: above 0 favours long ones
  // When a search ends, once `beams` beams have: "first", at once; "exact", when no running beam can still get among
  // them; "estimate", when none would if it ended now, as is usual (a later, longer one might, where long ones are
  // favoured).
  std::string beam_stop = "estimate";

  std::vector<int64_t> end_ids;   // any of them ends a row, and stays in its tokens
  std::vector<std::string> stop;  // texts that end a row; its text is cut before the first; needs a tokenizer
  int64_t pad_id = -1;            // fills finished rows, never penalised; −1: the first end id, or 0
  int64_t start_id = -1;          // first token of the target (encoder-decoder only, required there)
  int64_t forced_first = -1;      // the first new token, whatever the model says; −1: its choice
  int64_t forced_last = -1;       // the token number max_new_tokens, if a row gets that far; −1: the model's choice

  std::vector<LogitRule> rules;  // the caller's own, applied before the others

  void visit(FieldVisitor& visitor);
  // Error(kConfig) that names the field, what was wanted and what came.
  void check() const;
  // The token that a row of `length` new ones must go on with; −1: none.
  int64_t forced(int64_t length) const {
    return length + 1 == max_new_tokens && forced_last >= 0 ? forced_last : length == 0 ? forced_first : -1;
  }
  int64_t padding() const { return pad_id >= 0 ? pad_id : end_ids.empty() ? 0 : end_ids.front(); }
};

}  // namespace fovea
