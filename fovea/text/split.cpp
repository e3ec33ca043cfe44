// Splitting by a pattern: what becomes of the matches, and the pre-tokenizer "Split".
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/text/gpt2_split.h"
#include "fovea/text/pattern.h"
#include "fovea/text/pre_tokenizer.h"

namespace fovea::text {
namespace {

struct Part {
  size_t begin, end;
  bool match;
};

void emit(const Piece& piece, size_t begin, size_t end, PieceSink& next) {
  if (begin < end) next.take(piece.part(begin, end));
}

// Joins neighbours so that a match goes to its left (right) one; a match right after (before) a match stays alone.
void emit_merged(const Piece& piece, const std::vector<Part>& parts, bool with_previous, PieceSink& next) {
  std::vector<Part> joined;
  bool last_match = false;
  const size_t count = parts.size();
  for (size_t i = 0; i < count; ++i) {
    const Part& part = parts[with_previous ? i : count - 1 - i];
    if (part.match && !last_match && !joined.empty()) {
      (with_previous ? joined.back().end : joined.back().begin) = with_previous ? part.end : part.begin;
    } else {
      joined.push_back(part);
    }
    last_match = part.match;
  }
  for (size_t i = 0; i < joined.size(); ++i) {
    const Part& part = joined[with_previous ? i : joined.size() - 1 - i];
    emit(piece, part.begin, part.end, next);
  }
}

void emit_contiguous(const Piece& piece, const std::vector<Part>& parts, PieceSink& next) {
  for (size_t i = 0; i < parts.size();) {
    size_t last = i;
    while (last + 1 < parts.size() && parts[last + 1].match == parts[i].match) ++last;
    emit(piece, parts[i].begin, parts[last].end, next);
    i = last + 1;
  }
}

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const Piece& piece, bool, PieceSink& next) const override {
    const auto find = [this](std::string_view text, size_t from) -> Piece::Range {
      const Pattern::Match match = pattern_.find(text, from);
      return {match.begin, match.end};
    };
    split_by(piece, find, behavior_, invert_, next);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Split by GPT-2's pattern, as files for older tokenizers spell it out: its matches cover everything.
class Gpt2Split : public PreTokenizer {
 public:
  void split(const Piece& piece, bool, PieceSink& next) const override { split_gpt2(piece, next); }
};

}  // namespace

void split_by(const Piece& piece, const NextMatch& next_match, SplitBehavior behavior, bool invert, PieceSink& next) {
  const size_t size = piece.text.size();
  std::vector<Part> parts;  // only for behaviours that look at neighbours
  const auto take = [&](size_t begin, size_t end, bool match) {
    if (begin == end) return;
    match = match != invert;
    if (behavior == SplitBehavior::kIsolated || (behavior == SplitBehavior::kRemoved && !match)) {
      next.take(piece.part(begin, end));
    } else if (behavior != SplitBehavior::kRemoved) {
      parts.push_back({begin, end, match});
    }
  };
  size_t done = 0;
  while (done < size) {
    const Piece::Range match = next_match(piece.text, done);
    if (match.begin == Pattern::npos) break;
    take(done, match.begin, false);
    take(match.begin, match.end, true);
    done = match.end;
  }
  take(done, size, false);
  if (behavior == SplitBehavior::kContiguous) emit_contiguous(piece, parts, next);
  if (behavior == SplitBehavior::kMergedWithPrevious) emit_merged(piece, parts, true, next);
  if (behavior == SplitBehavior::kMergedWithNext) emit_merged(piece, parts, false, next);
}

SplitBehavior read_split_behavior(Fields& fields, std::string_view key) {
  static const std::vector<std::string> kNames = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                  "Contiguous"};
  const std::string name = fields.string(key);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<SplitBehavior>(i);
  }
  throw Error(ErrorKind::kInput,
              detail::concat(fields.where(key), ": unknown behaviour \"", name, "\"", suggestion(name, kNames)));
}

std::unique_ptr<PreTokenizer> read_split(Fields& fields) {
  Fields pattern(fields.at("pattern"), fields.where("pattern"));
  const SplitBehavior behavior = read_split_behavior(fields, "behavior");
  const bool invert = fields.boolean("invert");
  const bool regex = pattern.has("Regex");
  const std::string text = pattern.string(regex ? "Regex" : "String");
  pattern.finish();
  if (regex && text == kGpt2Pattern &&
      (behavior == SplitBehavior::kIsolated || (behavior == SplitBehavior::kRemoved && invert)))
    return std::make_unique<Gpt2Split>();
  Pattern parsed = regex ? Pattern::parse(text, pattern.where()) : Pattern::literal(text, pattern.where());
  return std::make_unique<Split>(std::move(parsed), behavior, invert);
}

}  // namespace fovea::text
