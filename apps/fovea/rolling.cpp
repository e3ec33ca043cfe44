// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/rolling.h"

#include <algorithm>
#include <limits>

namespace fovea {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

// The cut may have fallen into a character of several tokens: those are written anew.
void drop_half_character(Generated& row, const Tokenizer& tokenizer) {
  const std::string_view whole = without_half_character(row.text);
  if (whole.size() == row.text.size()) return;
  row.text.resize(whole.size());
  for (int i = 0; i < 3 && !row.tokens.empty() && tokenizer.decode(row.tokens).ends_with(kReplacement); ++i) {
    row.tokens.pop_back();
    row.score -= row.logprobs.back();
    row.logprobs.pop_back();
  }
}

// Draws depend on (seed, tokens written since the cut): each piece has a seed of its own.
int64_t piece_seed(int64_t seed, int64_t piece) {
  const uint64_t mixed = uint64_t(seed) + (uint64_t(piece) << 32);
  return int64_t(mixed & uint64_t(std::numeric_limits<int64_t>::max()));
}

}  // namespace

std::string_view without_half_character(std::string_view text) {
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

double go_on_beyond_positions(const GenerativeModelImpl& model, const std::vector<int64_t>& prompt, Generated& row,
                              GenerateOptions options, const Tokenizer& tokenizer, const TokenCallback& on_token) {
  const int64_t wanted = options.max_new_tokens, seed = options.seed;
  const size_t window = size_t(std::max<int64_t>(1, model.max_positions() / 2));
  double seconds = 0;
  for (int64_t piece = 1; row.finish == Finish::kPositions && int64_t(row.tokens.size()) < wanted; ++piece) {
    drop_half_character(row, tokenizer);
    std::vector<int64_t> newest = prompt;
    newest.insert(newest.end(), row.tokens.begin(), row.tokens.end());
    if (newest.size() > window) newest.erase(newest.begin(), newest.end() - int64_t(window));
    options.max_new_tokens = wanted - int64_t(row.tokens.size());
    options.seed = piece_seed(seed, piece);
    GenerateResult more = generate(model, {newest}, options, &tokenizer, on_token);
    Generated& tail = more.rows[0];
    row.tokens.insert(row.tokens.end(), tail.tokens.begin(), tail.tokens.end());
    row.logprobs.insert(row.logprobs.end(), tail.logprobs.begin(), tail.logprobs.end());
    row.text += tail.text;
    row.score += tail.score;
    row.finish = tail.finish;
    seconds += more.seconds.prefill + more.seconds.decode;
  }
  return seconds;
}

}  // namespace fovea
