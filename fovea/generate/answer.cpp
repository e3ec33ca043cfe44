// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/answer.h"

#include <algorithm>

namespace fovea {

Finish append_token(Generated& row, int64_t id, double logprob, const GenerateOptions& options, int64_t room) {
  row.tokens.push_back(id);
  row.logprobs.push_back(logprob);
  row.score += logprob;
  const auto length = int64_t(row.tokens.size());
  if (std::count(options.end_ids.begin(), options.end_ids.end(), id) > 0) return Finish::kEnd;
  if (length == options.max_new_tokens) return Finish::kLength;
  return length == room ? Finish::kPositions : Finish::kNone;
}

Answer::Answer(const GenerateOptions& options, const Tokenizer* tokenizer, int64_t room)
    : options_(&options), room_(room), stops_(options.stop) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
}

std::string Answer::add(int64_t id, double logprob) {
  const Finish finish = append_token(generated_, id, logprob, *options_, room_);
  if (finish == Finish::kEnd) return end(finish);
  std::string shown = decoder_ ? stops_.push(decoder_->push(id)) : "";
  generated_.text += shown;
  if (stops_.found()) return shown + end(Finish::kStop);
  return finish == Finish::kNone ? shown : shown + end(finish);
}

std::string Answer::end(Finish finish) {
  generated_.finish = finish;
  std::string shown = decoder_ ? stops_.push(decoder_->flush()) : "";
  shown += stops_.finish();
  generated_.text += shown;
  return shown;
}

}  // namespace fovea
