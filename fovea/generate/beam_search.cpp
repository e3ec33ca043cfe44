// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "fovea/generate/answer.h"
#include "fovea/generate/next_token.h"

namespace fovea {
namespace {

struct Beam {
  int64_t place;   // row of the model's batch
  double sum = 0;  // of log-probabilities, after the rules
  Generated answer;
};

// A beam and one more token.
struct Continuation {
  double sum;
  size_t beam;
  int32_t id;
};

bool ranks_before(const Continuation& a, const Continuation& b) {
  return std::tie(b.sum, a.beam, a.id) < std::tie(a.sum, b.beam, b.id);
}

// The search for one prompt. No beam runs when it has ended.
class Search {
 public:
  Search(std::vector<int64_t> prompt, int64_t place, int64_t room, const GenerateOptions& options,
         const std::vector<LogitRule>& rules, const Tokenizer* tokenizer)
      : prompt_(std::move(prompt)), room_(room), options_(options), rules_(rules), tokenizer_(tokenizer) {
    running_.push_back({.place = place});
  }

  std::vector<Beam>& running() { return running_; }

  // Goes on by one token; the place of a running beam is then that of the beam it came from.
  void advance(const NextTokenScores& scores) {
    const std::vector<Continuation> ranked = continuations(scores);
    std::vector<Beam> next;
    for (size_t rank = 0; rank < ranked.size() && next.size() < width_; ++rank) {
      const Continuation& continuation = ranked[rank];
      Beam beam = running_[continuation.beam];
      beam.sum = continuation.sum;
      extend(beam.answer, continuation.id, scores.logprob(beam.place, continuation.id));
      if (beam.answer.finish == Finish::kNone)
        next.push_back(std::move(beam));
      else if (rank < width_)
        keep(std::move(beam));
    }
    running_ = std::move(next);
    if (settled()) running_.clear();
  }

  std::vector<Generated> take_results() {
    ended_.resize(size_t(options_.results),
                  {.finish = Finish::kExhausted, .score = -std::numeric_limits<double>::infinity()});
    for (Generated& answer : ended_) answer.text = text_of(answer).shown;
    return std::move(ended_);
  }

 private:
  struct Text {
    std::string shown;
    bool stopped;
  };
  Text text_of(const Generated& answer) const {
    if (tokenizer_ == nullptr) return {"", false};
    std::vector<int64_t> tokens = answer.tokens;
    if (answer.finish == Finish::kEnd) tokens.pop_back();
    StopStrings stops(options_.stop);
    std::string shown = stops.push(tokenizer_->decode(tokens));
    return {shown + stops.finish(), stops.found()};
  }

  void extend(Generated& answer, int64_t id, double logprob) const {
    answer.finish = append_token(answer, id, logprob, options_, room_);
    if (answer.finish != Finish::kEnd && !options_.stop.empty() && text_of(answer).stopped)
      answer.finish = Finish::kStop;
  }

  // The best ones first, enough of them to go on with `width_` beams where each end token wins its place too.
  std::vector<Continuation> continuations(const NextTokenScores& scores) {
    const size_t wanted = 2 * width_ + options_.end_ids.size();
    std::vector<Continuation> out;
    for (size_t i = 0; i < running_.size(); ++i) {
      Beam& beam = running_[i];
      const auto length = int64_t(beam.answer.tokens.size());
      if (const int64_t id = options_.forced(length); id >= 0) {
        out.push_back({beam.sum, i, int32_t(id)});  // certain, so it costs nothing
        continue;
      }
      Candidates candidates = scores.candidates(beam.place);
      std::vector<int64_t> history = prompt_;
      history.insert(history.end(), beam.answer.tokens.begin(), beam.answer.tokens.end());
      apply_rules(rules_, options_, length, history, candidates);
      if (candidates.empty()) {
        beam.answer.finish = Finish::kExhausted;
        keep(beam);
      }
      Candidates best(std::min(wanted, candidates.size()));
      std::partial_sort_copy(candidates.begin(), candidates.end(), best.begin(), best.end(), better);
      for (const Candidate& candidate : best)
        out.push_back({beam.sum + candidate.logit - scores.log_normalizer(beam.place), i, candidate.id});
    }
    std::sort(out.begin(), out.end(), ranks_before);
    out.resize(std::min(out.size(), wanted));
    return out;
  }

  double score(double sum, size_t length) const {
    return length == 0 ? 0 : sum / std::pow(double(length), options_.length_penalty);
  }

  // Among the best that ended, at most `width_`; equals stand in the order they came.
  void keep(Beam beam) {
    Generated& answer = beam.answer;
    answer.score = score(beam.sum, answer.tokens.size());
    const auto place = std::upper_bound(ended_.begin(), ended_.end(), answer,
                                        [](const Generated& a, const Generated& b) { return a.score > b.score; });
    ended_.insert(place, std::move(answer));
    if (ended_.size() > width_) ended_.pop_back();
  }

  bool settled() const {
    if (ended_.size() < width_ || running_.empty()) return running_.empty();
    if (options_.beam_stop == "first") return true;
    // A sum only falls. Divided by a power of the length it is best at the longest answer, or at the shortest.
    const Beam& best = running_.front();
    const bool longest = options_.beam_stop == "exact" && options_.length_penalty > 0;
    const auto most = size_t(std::min(room_, options_.max_new_tokens));
    return score(best.sum, longest ? most : best.answer.tokens.size()) <= ended_.back().score;
  }

  std::vector<int64_t> prompt_;
  int64_t room_;
  const GenerateOptions& options_;
  const std::vector<LogitRule>& rules_;
  const Tokenizer* tokenizer_;
  const size_t width_ = size_t(options_.beams);
  std::vector<Beam> running_;     // the best first
  std::vector<Generated> ended_;  // the best first
};

// Running beams become the rows of the model's batch, in order. Returns their newest tokens.
std::vector<int64_t> regroup(std::vector<Search*>& searches, DecoderState& state, at::Device device, int64_t rows) {
  std::vector<int64_t> parents, newest;
  bool moved = false;
  for (Search* search : searches)
    for (Beam& beam : search->running()) {
      moved |= beam.place != int64_t(parents.size());
      parents.push_back(beam.place);
      beam.place = int64_t(newest.size());
      newest.push_back(beam.answer.tokens.back());
    }
  if (moved || int64_t(parents.size()) != rows) state.reorder(integers(parents, device));
  return newest;
}

}  // namespace

std::vector<Generated> beam_search(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                                   const GenerateOptions& options, const Tokenizer* tokenizer, Prefill start) {
  const std::vector<LogitRule> rules = make_logit_rules(options);
  std::vector<Search> searches;
  for (size_t row = 0; row < prompts.size(); ++row)
    searches.emplace_back(model.has_encoder() ? std::vector{options.start_id} : prompts[row], int64_t(row),
                          room_after(model, int64_t(prompts[row].size())), options, rules, tokenizer);
  std::vector<Search*> live;
  for (Search& search : searches) live.push_back(&search);
  const at::Device device = start.logits.device();
  while (true) {
    const NextTokenScores scores(start.logits);
    for (Search* search : live) search->advance(scores);
    std::erase_if(live, [](Search* search) { return search->running().empty(); });
    if (live.empty()) break;
    const std::vector<int64_t> newest = regroup(live, start.state, device, scores.rows());
    start.logits = model.step(integers(newest, device).unsqueeze(1), start.state, true);  // [N, 1, V]
  }
  std::vector<Generated> out;
  for (Search& search : searches)
    for (Generated& answer : search.take_results()) out.push_back(std::move(answer));
  return out;
}

}  // namespace fovea
