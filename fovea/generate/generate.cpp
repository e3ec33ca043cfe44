// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/generate.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "fovea/base/check.h"
#include "fovea/generate/answer.h"
#include "fovea/generate/beam_search.h"
#include "fovea/generate/next_token.h"
#include "fovea/generate/prefill.h"
#include "fovea/generate/sampler.h"

namespace fovea {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t seed_of(const GenerateOptions& options) {
  return options.seed >= 0 ? options.seed
                           : at::randint(std::numeric_limits<int32_t>::max(), {1}, at::kLong).item<int64_t>();
}

// Rows that go on, in the order in which they stand in the model's batch.
class Decoding {
 public:
  Decoding(const GenerateOptions& options, const TokenCallback& on_token, GenerateResult& result)
      : options_(options), rules_(make_logit_rules(options)), on_token_(on_token), result_(result) {}

  void add_row(std::vector<int64_t> history, Answer answer) {
    rows_.push_back({int64_t(rows_.size()), std::move(history), std::move(answer)});
  }

  // Takes a token in every row, then steps, until every row has ended.
  void run(const GenerativeModelImpl& model, Prefill start) {
    result_.rows.resize(rows_.size());
    const at::Device device = start.logits.device();
    while (true) {
      const NextTokenScores scores(start.logits);
      for (size_t place = 0; place < rows_.size(); ++place) take(rows_[place], scores, int64_t(place));
      const std::vector<int64_t> kept = drop_ended();
      if (kept.empty()) return;
      // Ended rows leave the batch: they cost nothing, and never reach positions that the model does not have.
      if (int64_t(kept.size()) < scores.rows()) start.state.reorder(integers(kept, device));
      std::vector<int64_t> newest;
      for (const Row& row : rows_) newest.push_back(row.history.back());
      start.logits = model.step(integers(newest, device).unsqueeze(1), start.state, true);  // [N, 1, V]
    }
  }

 private:
  struct Row {
    int64_t index;  // in the caller's order
    std::vector<int64_t> history;
    Answer answer;
  };

  // The next token of a row, −1 where the rules left none.
  int64_t choose(const Row& row, const NextTokenScores& scores, int64_t place) const {
    const int64_t length = row.answer.length();
    if (const int64_t id = options_.forced(length); id >= 0) return id;
    if (rules_.empty() && options_.temperature == 0 && length >= options_.min_new_tokens) return scores.best(place);
    Candidates candidates = scores.candidates(place);
    apply_rules(rules_, options_, length, row.history, candidates);
    if (candidates.empty()) return -1;
    if (options_.temperature == 0) return best_candidate(candidates).id;
    const uint64_t seed = uint64_t(result_.seed) + uint64_t(row.index);
    return draw_candidate(candidates, draw_uniform(seed, uint64_t(length))).id;
  }

  void take(Row& row, const NextTokenScores& scores, int64_t place) {
    const int64_t id = choose(row, scores, place);
    const double logprob = id < 0 ? 0 : scores.logprob(place, id);
    if (id >= 0) row.history.push_back(id);
    const std::string shown = id < 0 ? row.answer.end(Finish::kExhausted) : row.answer.add(id, logprob);
    if (!on_token_) return;
    const bool wanted = on_token_({row.index, id, logprob, shown, row.answer.generated().finish});
    if (!wanted && !row.answer.ended()) row.answer.end(Finish::kCancelled);
  }

  // Moves ended rows to the result; returns the places of the others.
  std::vector<int64_t> drop_ended() {
    std::vector<int64_t> kept;
    for (size_t place = 0; place < rows_.size(); ++place) {
      if (rows_[place].answer.ended())
        result_.rows[rows_[place].index] = std::move(rows_[place].answer).take();
      else
        kept.push_back(int64_t(place));
    }
    std::erase_if(rows_, [](const Row& row) { return row.answer.ended(); });
    return kept;
  }

  const GenerateOptions& options_;
  const std::vector<LogitRule> rules_;
  const TokenCallback& on_token_;
  GenerateResult& result_;
  std::vector<Row> rows_;
};

at::Tensor padded(const std::vector<Generated>& rows, int64_t padding) {
  size_t longest = 0;
  for (const Generated& row : rows) longest = std::max(longest, row.tokens.size());
  at::Tensor out = at::full({int64_t(rows.size()), int64_t(longest)}, padding, at::kLong);  // [rows, longest]
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto& tokens = rows[row].tokens;
    if (!tokens.empty()) out[int64_t(row)].narrow(0, 0, int64_t(tokens.size())).copy_(at::tensor(tokens, at::kLong));
  }
  return out;
}

}  // namespace

std::string_view finish_name(Finish finish) {
  static constexpr std::string_view kNames[] = {"", "end", "stop", "length", "positions", "exhausted", "cancelled"};
  return kNames[size_t(finish)];
}

GenerateResult generate(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                        const GenerateOptions& options, const Tokenizer* tokenizer, const TokenCallback& on_token) {
  check_call(model, prompts, options);
  FOVEA_CHECK_CONFIG(tokenizer != nullptr || options.stop.empty(), "generate: stop strings need a tokenizer");
  FOVEA_CHECK_CONFIG(options.beams == 1 || !on_token,
                     "generate: a callback receives tokens as they are taken, but beam ", "search (beams ",
                     options.beams, ") takes them only at its end");
  GenerateResult result;
  result.seed = seed_of(options);
  if (!prompts.empty()) {
    const c10::InferenceMode inference;
    const auto began = Clock::now();
    Prefill start = prefill(model, prompts, options);
    result.seconds.prefill = seconds_since(began);
    if (options.beams > 1) {
      result.rows = beam_search(model, prompts, options, tokenizer, std::move(start));
    } else {
      Decoding decoding(options, on_token, result);
      for (const auto& prompt : prompts)
        decoding.add_row(model.has_encoder() ? std::vector{options.start_id} : prompt,
                         Answer(options, tokenizer, room_after(model, int64_t(prompt.size()))));
      decoding.run(model, std::move(start));
    }
    result.seconds.decode = seconds_since(began) - result.seconds.prefill;
  }
  // Outside inference mode, so that a caller may train on them.
  result.ids = padded(result.rows, options.padding());
  return result;
}

}  // namespace fovea
