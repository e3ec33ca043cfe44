// One row's answer as it grows: tokens in, whole characters out, and why it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/generate/generate.h"
#include "fovea/generate/stop_strings.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

// Adds a token and its log-probability. Returns kEnd, kLength or kPositions where it is the last one, as far as tokens
// tell. `room`: how many tokens the model has positions for.
Finish append_token(Generated& row, int64_t id, double logprob, const GenerateOptions& options, int64_t room);

class Answer {
 public:
  // `options` and `tokenizer` must outlive the answer.
  Answer(const GenerateOptions& options, const Tokenizer* tokenizer, int64_t room);

  // Appends a token, which may end the answer. Returns the text that may be shown now.
  std::string add(int64_t id, double logprob);
  // Ends it for another reason. Returns the text that was still held back.
  std::string end(Finish finish);

  bool ended() const { return generated_.finish != Finish::kNone; }
  const Generated& generated() const { return generated_; }
  int64_t length() const { return int64_t(generated_.tokens.size()); }
  Generated take() && { return std::move(generated_); }

 private:
  const GenerateOptions* options_;
  int64_t room_;
  Generated generated_;
  std::optional<StreamDecoder> decoder_;
  StopStrings stops_;
};

}  // namespace fovea
