// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/rolling.h"

#include <algorithm>
#include <limits>
#include <string>

namespace fovea {
namespace {

// What a stream of these tokens would still hold back: the beginning of a character.
std::string held_back(const Tokenizer& tokenizer, const std::vector<int64_t>& tokens) {
  StreamDecoder stream(tokenizer);
  for (const int64_t id : tokens) stream.push(id);
  return stream.flush();
}

// The cut may have fallen into a character of several tokens: those are taken back, to be written anew.
void drop_half_character(Generated& piece, const Tokenizer& tokenizer) {
  const std::string half = held_back(tokenizer, piece.tokens);
  if (half.empty() || !piece.text.ends_with(half)) return;
  std::vector<int64_t> tokens = piece.tokens;
  for (int i = 0; i < 3 && tokens.size() > 1; ++i) {
    tokens.pop_back();
    if (!held_back(tokenizer, tokens).empty()) continue;
    piece.text.resize(piece.text.size() - half.size());
    for (size_t last = tokens.size(); last < piece.tokens.size(); ++last) piece.score -= piece.logprobs[last];
    piece.logprobs.resize(tokens.size());
    piece.tokens = std::move(tokens);
    return;
  }
}

void append(Generated& row, const Generated& piece) {
  row.tokens.insert(row.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  row.logprobs.insert(row.logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
  row.text += piece.text;
  row.score += piece.score;
  row.finish = piece.finish;
}

int64_t wrapped(uint64_t seed) { return int64_t(seed & uint64_t(std::numeric_limits<int64_t>::max())); }

class Rolling {
 public:
  Rolling(const GenerativeModelImpl& model, const GenerateOptions& options, const Tokenizer& tokenizer,
          const TextCallback& on_text)
      : model_(model), options_(options), tokenizer_(tokenizer), on_text_(on_text) {}

  GenerateResult run(const std::vector<std::vector<int64_t>>& prompts) {
    GenerateResult result = pieces(prompts, options_, 0);
    const std::vector<size_t> shown = shown_;
    for (size_t row = 0; row < prompts.size(); ++row) {
      Generated first = std::move(result.rows[row]);
      result.rows[row] = {};
      shown_.assign(1, shown[row]);
      go_on(int64_t(row), prompts[row], std::move(first), result.rows[row], result);
    }
    return result;
  }

 private:
  // One window's tokens for some rows. Their text is handed on but for the end before a cut, which may be taken back.
  GenerateResult pieces(const std::vector<std::vector<int64_t>>& prompts, const GenerateOptions& options, int64_t row) {
    shown_.assign(prompts.size(), 0);
    return generate(model_, prompts, options, &tokenizer_, [&](const TokenEvent& event) {
      if (event.finish == Finish::kPositions) return true;
      shown_[size_t(event.row)] += event.text.size();
      return on_text_(row + event.row, event.text);
    });
  }

  void go_on(int64_t index, const std::vector<int64_t>& prompt, Generated piece, Generated& row,
             GenerateResult& result) {
    const size_t window = size_t(std::max<int64_t>(1, model_.max_positions() / 2));
    for (uint64_t number = 1;; ++number) {
      const int64_t wanted = options_.max_new_tokens - int64_t(row.tokens.size() + piece.tokens.size());
      const bool cut = piece.finish == Finish::kPositions && wanted > 0;
      if (cut) drop_half_character(piece, tokenizer_);
      const bool more = on_text_(index, std::string_view(piece.text).substr(shown_[0]));
      append(row, piece);
      if (cut && !more) row.finish = Finish::kCancelled;
      if (!cut || !more) return;

      std::vector<int64_t> newest = prompt;
      newest.insert(newest.end(), row.tokens.begin(), row.tokens.end());
      if (newest.size() > window) newest.erase(newest.begin(), newest.end() - int64_t(window));
      GenerateOptions options = options_;
      options.max_new_tokens -= int64_t(row.tokens.size());
      // A row's draws depend on its seed and on the tokens written since the cut: each window has a seed of its own.
      options.seed = wrapped(uint64_t(result.seed) + uint64_t(index) + (number << 32));
      GenerateResult next = pieces({newest}, options, index);
      result.seconds.prefill += next.seconds.prefill;
      result.seconds.decode += next.seconds.decode;
      piece = std::move(next.rows[0]);
    }
  }

  const GenerativeModelImpl& model_;
  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  const TextCallback& on_text_;
  std::vector<size_t> shown_;  // bytes of each row's newest piece that were handed on
};

}  // namespace

GenerateResult generate_rolling(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                                const GenerateOptions& options, const Tokenizer& tokenizer,
                                const TextCallback& on_text) {
  return Rolling(model, options, tokenizer, on_text).run(prompts);
}

}  // namespace fovea
