// Writing text token by token: prefill, then cached steps; greedy, drawn, or by beam search.
//
//   const auto result = generate(*model, prompts, {.max_new_tokens = 60, .temperature = 0.8, .end_ids = {0}, .seed =
//   1});
//
// A row's tokens do not depend on its batch mates. The library prints nothing: a callback receives every token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/generate/options.h"
#include "fovea/models/model.h"

namespace fovea {

class Tokenizer;

enum class Finish : uint8_t {
  kNone,       // goes on
  kEnd,        // an end token
  kStop,       // a stop string
  kLength,     // max_new_tokens
  kPositions,  // the model has no position for another token
  kExhausted,  // the rules left no token
  kCancelled,  // the callback returned false
};
// "end", "stop", "length", "positions", "exhausted", "cancelled"; "" for kNone.
std::string_view finish_name(Finish finish);

struct Generated {
  std::vector<int64_t> tokens;   // new ones only, an end token included
  std::vector<double> logprobs;  // of each token, natural logarithm, as the model had it before any rule
  std::string text;              // with a tokenizer: no special tokens, cut before a stop string
  Finish finish = Finish::kNone;
  double score = 0;  // Σ log-probabilities; beam search: after the rules, divided by length^length_penalty
};

struct GenerateResult {
  std::vector<Generated> rows;  // prompts × results; beams of one prompt stand together, the best first
  at::Tensor ids;               // int64 [rows, longest], each row's tokens, then padding
  int64_t seed = 0;             // row b drew with seed + b
  struct {
    double prefill = 0, decode = 0;
  } seconds;
};

// One token, as soon as it is taken. The text is what may be shown now: whole characters, nothing of a stop string; it
// may be empty, and the pieces of a row join to its text.
struct TokenEvent {
  int64_t row;
  int64_t id;  // −1 in the event that only says kExhausted
  double logprob;
  std::string_view text;
  Finish finish;  // kNone unless this is the row's last token
};
// false ends that row.
using TokenCallback = std::function<bool(const TokenEvent&)>;

// Prompts are token ids, one list a row: what is continued (decoder only), or the source to answer (encoder-decoder).
// The tokenizer turns tokens into text; without one, texts stay empty. With beams there is no callback.
//
// Error(kConfig) for options that are out of range; Error(kInput) for a prompt that is empty, longer than the model's
// positions, or holds ids outside its vocabulary; Error(kArgument) for a model in training mode; Error(kDiverged) for
// logits that are not numbers.
GenerateResult generate(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                        const GenerateOptions& options = {}, const Tokenizer* tokenizer = nullptr,
                        const TokenCallback& on_token = {});

}  // namespace fovea
