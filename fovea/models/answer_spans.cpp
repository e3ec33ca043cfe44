// Questions answered by spans of a text (Devlin et al. 2019, section 4.2): the model scores each token as begin and
// end.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fovea/base/check.h"
#include "fovea/models/text_batches.h"

namespace fovea {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

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

// The context's tokens, cut as a whole: where each begins and ends, and where its word does (code points).
struct ContextTokens {
  using Span = std::pair<int64_t, int64_t>;
  std::vector<Span> offsets, words;
  std::vector<bool> starts_word;  // and one behind the last token

  explicit ContextTokens(const AnswerWindow& whole) {
    const auto word = [&](size_t t) { return whole.row.word_ids[size_t(whole.places[t])]; };
    for (size_t t = 0; t < whole.places.size(); ++t) {
      offsets.push_back(whole.row.offsets[size_t(whole.places[t])]);
      starts_word.push_back(t == 0 || word(t) != word(t - 1));
      words.push_back(starts_word[t] ? offsets[t] : Span{words[t - 1].first, offsets[t].second});
    }
    starts_word.push_back(true);
    for (size_t t = words.size() - 1; t > 0; --t)
      if (!starts_word[t]) words[t - 1].second = words[t].second;
  }
  int64_t count() const { return int64_t(offsets.size()); }

  // The span together with the rest of its first and its last word.
  Span whole_words(const Span& span) const {
    // A tokenizer that does not cut words takes all of the text for one.
    if (words.front() == words.back()) return span;
    const auto first = std::partition_point(offsets.begin(), offsets.end() - 1,
                                            [&](const Span& token) { return token.second <= span.first; });
    const auto behind =
        std::partition_point(first + 1, offsets.end(), [&](const Span& token) { return token.first < span.second; });
    return {std::min(span.first, words[size_t(first - offsets.begin())].first),
            std::max(span.second, words[size_t(behind - 1 - offsets.begin())].second)};
  }
};

// Windows begin and end with words, but for one that is longer than a window.
std::vector<AnswerWindow> make_windows(const TextEncoder& encoder, std::string_view question, std::string_view context,
                                       const AnswerWindow& whole, const ContextTokens& tokens, int64_t overlap) {
  const int64_t longest = encoder.model->max_positions();
  if (int64_t(whole.row.ids.size()) <= longest) return {whole};
  const int64_t room = longest - int64_t(whole.row.ids.size()) + tokens.count();
  FOVEA_CHECK_INPUT(room >= 1, "the question leaves none of the model's ", longest, " positions to the context");
  overlap = std::min(overlap, room / 2);
  std::vector<AnswerWindow> out;
  for (int64_t first = 0;;) {
    int64_t end = std::min(first + room, tokens.count());
    const auto back_to_word = [&](int64_t t) {
      int64_t start = t;
      while (start > first && !tokens.starts_word[size_t(start)]) --start;
      return start > first ? start : t;
    };
    end = back_to_word(end);
    // Cut out of its text, a part may have a token more than it had in there.
    for (; end > first; --end) {
      const int64_t begin = tokens.offsets[size_t(first)].first;
      const auto [from, to] = byte_offsets(context, {begin, tokens.offsets[size_t(end - 1)].second});
      AnswerWindow window = make_window(encoder.tokenizer, question, context.substr(from, to - from), begin);
      if (int64_t(window.row.ids.size()) > longest) continue;
      out.push_back(std::move(window));
      break;
    }
    if (end >= tokens.count()) return out;
    first = std::max(first + 1, back_to_word(end - overlap));
  }
}

// Log-probabilities of each of the window's places to be the begin (0) or the end (1), [places, 2], of its row's logits
// [T, 2].
Tensor place_scores(const AnswerWindow& window, const Tensor& logits) {
  std::vector<int64_t> candidates{0};  // "no answer"
  candidates.insert(candidates.end(), window.places.begin(), window.places.end());
  const Tensor chosen = logits.index_select(0, at::tensor(candidates, at::kLong));  // [1 + places, 2]
  return at::log_softmax(chosen, 0, at::kFloat).slice(0, 1).contiguous();
}

void add_answers(const AnswerWindow& window, const Tensor& scores, int64_t longest, std::vector<AnswerSpan>& out) {
  const auto score = scores.accessor<float, 2>();
  const auto offset = [&](int64_t place) { return window.row.offsets[size_t(window.places[size_t(place)])]; };
  for (int64_t first = 0; first < score.size(0); ++first)
    for (int64_t last = first; last < std::min(first + longest, score.size(0)); ++last)
      out.push_back({"",
                     {window.begin + offset(first).first, window.begin + offset(last).second},
                     score[first][0] + score[last][1]});
}

// Without the blanks around it, which some tokenizers take into the token beside them; empty if there is nothing else.
AnswerSpan with_text(AnswerSpan span, std::string_view context) {
  auto [from, to] = byte_offsets(context, span.offset);
  const auto blank = [&](size_t at) { return kBlanks.find(context[at]) != kBlanks.npos; };
  while (from < to && blank(from)) ++from, ++span.offset.first;
  while (from < to && blank(to - 1)) --to, --span.offset.second;
  span.text = std::string(context.substr(from, to - from));
  return span;
}

// The best of what was found, as whole words where that is wanted; the same span found twice counts once, with its
// better score.
std::vector<AnswerSpan> best_answers(std::vector<AnswerSpan> found, std::string_view context,
                                     const ContextTokens& tokens, const AnswerOptions& options) {
  std::stable_sort(found.begin(), found.end(),
                   [](const AnswerSpan& a, const AnswerSpan& b) { return a.score > b.score; });
  std::vector<AnswerSpan> out;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (AnswerSpan& next : found) {
    if (int64_t(out.size()) == options.top_k) break;
    if (options.whole_words) next.offset = tokens.whole_words(next.offset);
    if (!seen.insert(next.offset).second) continue;
    const auto with_blanks = next.offset;
    next = with_text(std::move(next), context);
    if (next.text.empty() || (next.offset != with_blanks && !seen.insert(next.offset).second)) continue;
    next.score = std::exp(next.score);
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace

std::vector<AnswerSpan> TextEncoder::answer(std::string_view question, std::string_view context,
                                            const AnswerOptions& options) const {
  return answers({{std::string(question), std::string(context)}}, options)[0];
}

std::vector<std::vector<AnswerSpan>> TextEncoder::answers(const Pairs& asked, const AnswerOptions& options) const {
  FOVEA_CHECK_KIND(ErrorKind::kInput, model->head() == "question_answering",
                   "the model cannot answer questions: its head is \"", model->head(),
                   "\", wanted \"question_answering\"");
  FOVEA_CHECK_CONFIG(options.top_k >= 1, "top_k is ", options.top_k, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.longest >= 1, "longest is ", options.longest, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options.overlap >= 0, "overlap is ", options.overlap, ", wanted at least 0");
  std::vector<ContextTokens> tokens;  // of each context
  std::vector<AnswerWindow> windows;  // of all
  std::vector<size_t> asked_of;       // [window]: which pair it is of
  std::vector<Encoding> rows;
  for (const auto& [question, context] : asked) {
    const AnswerWindow whole = make_window(tokenizer, question, context, 0);
    FOVEA_CHECK_INPUT(!whole.places.empty() && context.find_first_not_of(kBlanks) != context.npos,
                      "the context has no tokens to answer with");
    tokens.emplace_back(whole);
    for (AnswerWindow& window : make_windows(*this, question, context, whole, tokens.back(), options.overlap)) {
      rows.push_back(window.row);
      windows.push_back(std::move(window));
      asked_of.push_back(tokens.size() - 1);
    }
  }
  std::vector<std::vector<AnswerSpan>> found(asked.size());
  run_by_length(*this, rows, [&](const TextBatch& b) {
    const Tensor logits = model->forward(b.batch);  // [B, T, 2]
    for (size_t i = 0; i < b.rows.size(); ++i) {
      const AnswerWindow& window = windows[size_t(b.rows[i])];
      add_answers(window, place_scores(window, logits[int64_t(i)]), options.longest,
                  found[asked_of[size_t(b.rows[i])]]);
    }
  });
  std::vector<std::vector<AnswerSpan>> out;
  for (size_t i = 0; i < asked.size(); ++i)
    out.push_back(best_answers(std::move(found[i]), asked[i].second, tokens[i], options));
  return out;
}

}  // namespace fovea
