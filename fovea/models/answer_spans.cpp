// Questions answered by spans of a text (Devlin et al. 2019, section 4.2): the model scores each token as begin and
// end.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/check.h"
#include "fovea/models/text_encoder.h"

namespace fovea {
namespace {

// Part of a context that fits beside the question.
struct AnswerWindow {
  Encoding row;                 // question and part
  std::vector<int64_t> places;  // the part's tokens in the row
  int64_t begin = 0;            // code points of the context before the part
};

AnswerWindow make_window(const Tokenizer& tokenizer, std::string_view question, std::string_view part, int64_t begin) {
  AnswerWindow out{tokenizer.encode_pair(question, part, {.truncate = false, .pad = false}), {}, begin};
  const size_t asked = tokenizer.ids(question, {.add_special_tokens = false, .truncate = false, .pad = false}).size();
  for (size_t t = 0; t < out.row.ids.size(); ++t)
    if (out.row.special_tokens_mask[t] == 0) out.places.push_back(int64_t(t));
  out.places.erase(out.places.begin(), out.places.begin() + std::min(asked, out.places.size()));
  return out;
}

std::vector<AnswerWindow> make_windows(const TextEncoder& encoder, std::string_view question, std::string_view context,
                                       int64_t overlap) {
  const int64_t longest = encoder.model->max_positions();
  const AnswerWindow whole = make_window(encoder.tokenizer, question, context, 0);
  FOVEA_CHECK_INPUT(!whole.places.empty(), "the context has no tokens to answer with");
  if (int64_t(whole.row.ids.size()) <= longest) return {whole};
  const int64_t tokens = int64_t(whole.places.size()), room = longest - int64_t(whole.row.ids.size()) + tokens;
  FOVEA_CHECK_INPUT(room > overlap, "the question leaves ", std::max<int64_t>(room, 0), " of the model's ", longest,
                    " positions to the context, wanted more than the ", overlap, " that windows share");
  const auto offset = [&](int64_t t) { return whole.row.offsets[size_t(whole.places[size_t(t)])]; };
  std::vector<AnswerWindow> out;
  for (int64_t first = 0;; first += room - overlap) {
    // Cut out of its text, a part may have a token more than it had in there.
    for (int64_t count = std::min(room, tokens - first); count > 0; --count) {
      const std::pair<int64_t, int64_t> span{offset(first).first, offset(first + count - 1).second};
      const auto [from, to] = byte_offsets(context, span);
      AnswerWindow window = make_window(encoder.tokenizer, question, context.substr(from, to - from), span.first);
      if (int64_t(window.row.ids.size()) > longest) continue;
      out.push_back(std::move(window));
      break;
    }
    if (first + room >= tokens) return out;
  }
}

// Log-probabilities of each of the window's places to be the begin (0) or the end (1), [places, 2].
Tensor place_scores(const TextEncoder& encoder, const AnswerWindow& window) {
  const auto row = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong).unsqueeze(0); };
  const Tensor logits = encoder.model->forward({.ids = row(window.row.ids), .type_ids = row(window.row.type_ids)})[0];
  std::vector<int64_t> candidates{0};  // "no answer"
  candidates.insert(candidates.end(), window.places.begin(), window.places.end());
  const Tensor chosen = logits.index_select(0, at::tensor(candidates, at::kLong));  // [1 + places, 2]
  return at::log_softmax(chosen, 0, at::kFloat).slice(0, 1).contiguous();
}

void add_answers(const AnswerWindow& window, const Tensor& scores, const AnswerOptions& options,
                 std::vector<AnswerSpan>& out) {
  const auto score = scores.accessor<float, 2>();
  const auto token = [&](int64_t place) { return size_t(window.places[size_t(place)]); };
  const auto word = [&](int64_t place) { return window.row.word_ids[token(place)]; };
  // A tokenizer that does not cut words takes all of the text for one.
  const bool widen = options.whole_words && word(0) != word(score.size(0) - 1);
  const auto same_word = [&](int64_t a, int64_t b) {
    return widen && b >= 0 && b < score.size(0) && word(a) == word(b);
  };
  const auto begin = [&](int64_t place) {
    while (same_word(place, place - 1)) --place;
    return window.begin + window.row.offsets[token(place)].first;
  };
  const auto end = [&](int64_t place) {
    while (same_word(place, place + 1)) ++place;
    return window.begin + window.row.offsets[token(place)].second;
  };
  for (int64_t first = 0; first < score.size(0); ++first)
    for (int64_t last = first; last < std::min(first + options.longest, score.size(0)); ++last)
      out.push_back({"", {begin(first), end(last)}, score[first][0] + score[last][1]});
}

}  // namespace

std::vector<AnswerSpan> TextEncoder::answer(std::string_view question, std::string_view context,
                                            const AnswerOptions& options) const {
  FOVEA_CHECK_KIND(ErrorKind::kInput, model->head() == "question_answering",
                   "the model cannot answer questions: its head is \"", model->head(),
                   "\", wanted \"question_answering\"");
  FOVEA_CHECK_CONFIG(options.top_k >= 1, "top_k is ", options.top_k, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.longest >= 1, "longest is ", options.longest, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.overlap >= 0, "overlap is ", options.overlap, ", wanted at least 0");
  const at::NoGradGuard no_gradient;
  std::vector<AnswerSpan> found;
  for (const AnswerWindow& window : make_windows(*this, question, context, options.overlap))
    add_answers(window, place_scores(*this, window), options, found);
  // The same span in two windows counts once, with its better score.
  std::stable_sort(found.begin(), found.end(),
                   [](const AnswerSpan& a, const AnswerSpan& b) { return a.score > b.score; });
  std::vector<AnswerSpan> out;
  for (AnswerSpan& next : found) {
    if (int64_t(out.size()) == options.top_k) break;
    if (std::any_of(out.begin(), out.end(), [&](const AnswerSpan& a) { return a.offset == next.offset; })) continue;
    const auto [from, to] = byte_offsets(context, next.offset);
    next.text = std::string(context.substr(from, to - from));
    next.score = std::exp(next.score);
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace fovea
