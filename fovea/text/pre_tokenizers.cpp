// The pre-tokenizers that need no pattern: ByteLevel, Sequence, and those that look at one character.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/text/gpt2_split.h"
#include "fovea/text/pattern.h"
#include "fovea/text/pre_tokenizer.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

class ByteLevelSplitter : public PreTokenizer {
 public:
  ByteLevelSplitter(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(const Piece& piece, bool tracked, PieceSink& next) const override {
    if (!add_prefix_space_ || piece.text.starts_with(' ')) return words(piece, next);
    AlignedText spaced(piece, tracked);
    spaced.prepend(" ");
    words(spaced.piece(), next);
  }
  bool byte_level() const override { return true; }

 private:
  void words(const Piece& piece, PieceSink& next) const {
    if (!use_regex_) return next.take(piece);
    split_gpt2(piece, next);
  }

  bool add_prefix_space_, use_regex_;
};

class SplitterSequence : public PreTokenizer {
 public:
  explicit SplitterSequence(std::vector<std::unique_ptr<PreTokenizer>> stages) : stages_(std::move(stages)) {}
  void split(const Piece& piece, bool tracked, PieceSink& next) const override { run(0, piece, tracked, next); }
  bool byte_level() const override { return !stages_.empty() && stages_.back()->byte_level(); }
  bool needs_spans() const override {
    return std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->needs_spans(); });
  }

 private:
  struct Link : PieceSink {
    const SplitterSequence& sequence;
    size_t stage;
    bool tracked;
    PieceSink& last;
    Link(const SplitterSequence& sequence, size_t stage, bool tracked, PieceSink& last)
        : sequence(sequence), stage(stage), tracked(tracked), last(last) {}
    void take(const Piece& piece) override { sequence.run(stage, piece, tracked, last); }
  };

  void run(size_t stage, const Piece& piece, bool tracked, PieceSink& last) const {
    if (stage == stages_.size()) return last.take(piece);
    if (stage + 1 == stages_.size()) return stages_[stage]->split(piece, tracked, last);
    Link link(*this, stage + 1, tracked, last);
    stages_[stage]->split(piece, tracked, link);
  }

  std::vector<std::unique_ptr<PreTokenizer>> stages_;
};

// Splits around each character of a kind.
template <class IsMatch>
class CharacterSplitter : public PreTokenizer {
 public:
  CharacterSplitter(IsMatch is_match, SplitBehavior behavior) : is_match_(is_match), behavior_(behavior) {}
  void split(const Piece& piece, bool, PieceSink& next) const override {
    const auto find = [this](std::string_view text, size_t from) -> Piece::Range {
      for (const char *p = text.data() + from, *end = text.data() + text.size(); p < end;) {
        const auto begin = static_cast<size_t>(p - text.data());
        if (is_match_(next_character(p))) return {begin, static_cast<size_t>(p - text.data())};
      }
      return {Pattern::npos, Pattern::npos};
    };
    split_by(piece, find, behavior_, false, next);
  }

 private:
  IsMatch is_match_;
  SplitBehavior behavior_;
};

// Runs of word characters and runs of what is neither word nor blank; blanks vanish.
class Whitespace : public PreTokenizer {
 public:
  void split(const Piece& piece, bool, PieceSink& next) const override {
    const auto kind = [](char32_t c) { return is_word(c) ? 1 : is_white_space(c) ? 0 : 2; };
    const std::string_view text = piece.text;
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const char* begin = p;
      const int first = kind(next_character(p));
      while (p < end && kind(character_at(p)) == first) next_character(p);
      if (first != 0)
        next.take(piece.part(static_cast<size_t>(begin - text.data()), static_cast<size_t>(p - text.data())));
    }
  }
};

// BERT's: blanks vanish, every punctuation character stands alone.
class BertSplitter : public PreTokenizer {
 public:
  void split(const Piece& piece, bool, PieceSink& next) const override {
    const std::string_view text = piece.text;
    const char* end = text.data() + text.size();
    const char* word = text.data();
    const auto emit = [&](const char* from, const char* to) {
      if (from < to)
        next.take(piece.part(static_cast<size_t>(from - text.data()), static_cast<size_t>(to - text.data())));
    };
    for (const char* p = text.data(); p < end;) {
      const char* begin = p;
      const char32_t c = next_character(p);
      const bool punctuation = is_punctuation(c);
      if (!punctuation && !is_white_space(c)) continue;
      emit(word, begin);
      if (punctuation) emit(begin, p);
      word = p;
    }
    emit(word, end);
  }
};

template <class IsMatch>
std::unique_ptr<PreTokenizer> character_splitter(IsMatch is_match, SplitBehavior behavior) {
  return std::make_unique<CharacterSplitter<IsMatch>>(is_match, behavior);
}

}  // namespace

std::unique_ptr<PreTokenizer> read_byte_level_splitter(Fields& fields) {
  fields.ignore("trim_offsets");  // means something to the post-processor only
  return std::make_unique<ByteLevelSplitter>(fields.boolean("add_prefix_space"), fields.boolean("use_regex", true));
}

std::unique_ptr<PreTokenizer> read_splitter_sequence(Fields& fields) {
  const nlohmann::json& list = fields.array("pretokenizers");
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  for (size_t i = 0; i < list.size(); ++i) {
    FOVEA_CHECK_INPUT(stages.empty() || !stages.back()->byte_level(), fields.where("pretokenizers"),
                      ": a stage behind ByteLevel is not supported");
    const std::string where = fields.where("pretokenizers") + "[" + std::to_string(i) + "]";
    stages.push_back(read_pre_tokenizer(list[i], where));
    FOVEA_CHECK_INPUT(stages.back() != nullptr, where, ": wanted an object, got null");
  }
  return std::make_unique<SplitterSequence>(std::move(stages));
}

std::unique_ptr<PreTokenizer> read_whitespace(Fields&) { return std::make_unique<Whitespace>(); }

std::unique_ptr<PreTokenizer> read_whitespace_split(Fields&) {
  return character_splitter([](char32_t c) { return is_white_space(c); }, SplitBehavior::kRemoved);
}

std::unique_ptr<PreTokenizer> read_digits(Fields& fields) {
  const bool individual = fields.boolean("individual_digits");
  return character_splitter([](char32_t c) { return is_number(c); },
                            individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

std::unique_ptr<PreTokenizer> read_punctuation(Fields& fields) {
  const SplitBehavior behavior =
      fields.has("behavior") ? read_split_behavior(fields, "behavior") : SplitBehavior::kIsolated;
  return character_splitter([](char32_t c) { return is_punctuation(c); }, behavior);
}

std::unique_ptr<PreTokenizer> read_bert_splitter(Fields&) { return std::make_unique<BertSplitter>(); }

}  // namespace fovea::text
