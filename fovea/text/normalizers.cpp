// The normalisers that look at one character or one pattern. Unicode's forms are in unicode_forms.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/pattern.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

class Lowercase : public Normalizer {
 public:
  void apply(AlignedText& text) const override { lowercase(text); }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    const std::string& old = text.text();
    const char* begin = old.data();
    const char* end = begin + old.size();
    for (const char* p = begin; left_ && begin < end && is_white_space(next_character(p));) begin = p;
    while (right_ && begin < end && is_white_space(character_at(previous_character(end))))
      end = previous_character(end);
    text.cut(static_cast<size_t>(begin - old.data()), static_cast<size_t>(end - old.data()));
  }

 private:
  bool left_, right_;
};

// Where the characters of a kind are.
template <class IsMatch>
std::vector<Piece::Range> places_of(const std::string& text, const IsMatch& is_match) {
  std::vector<Piece::Range> places;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const auto begin = static_cast<size_t>(p - text.data());
    if (is_match(next_character(p))) places.push_back({begin, static_cast<size_t>(p - text.data())});
  }
  return places;
}

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override { text.replace(places_of(text.text(), is_mark), ""); }
};

// What sentencepiece's rules "nmt_…" do to controls and blanks beside Unicode's forms.
class Nmt : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    text.replace(places_of(text.text(), is_removed), "");
    text.replace(places_of(text.text(), is_blank), " ");
  }

 private:
  static bool is_removed(char32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  }
  static bool is_blank(char32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
           c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string content) : content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    if (!text.text().empty()) text.prepend(content_);
  }

 private:
  std::string content_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    std::vector<Piece::Range> places;
    for (size_t from = 0; from < text.text().size(); from = places.back().end) {
      const Pattern::Match match = pattern_.find(text.text(), from);
      if (match.begin == Pattern::npos) break;
      places.push_back({match.begin, match.end});
    }
    text.replace(places, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> stages) : stages_(std::move(stages)) {}
  void apply(AlignedText& text) const override {
    for (const auto& stage : stages_) stage->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> stages_;
};

}  // namespace

void lowercase(AlignedText& text) {
  std::vector<AlignedText::Step> steps;
  const std::string& old = text.text();
  steps.reserve(old.size());
  for (const char *p = old.data(), *end = p + old.size(); p < end;) {
    const char32_t c = next_character(p);
    if (c == 0x130) {  // the one character whose lower case is two: i and a dot above
      steps.push_back({'i'});
      steps.push_back({0x307, true});
    } else {
      steps.push_back({static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))});
    }
  }
  text.rewrite(steps);
}

std::unique_ptr<Normalizer> read_lowercase(Fields&) { return std::make_unique<Lowercase>(); }

std::unique_ptr<Normalizer> read_strip(Fields& fields) {
  const bool left = fields.boolean("strip_left"), right = fields.boolean("strip_right");
  return std::make_unique<Strip>(left, right);
}

std::unique_ptr<Normalizer> read_strip_accents(Fields&) { return std::make_unique<StripAccents>(); }

std::unique_ptr<Normalizer> read_nmt(Fields&) { return std::make_unique<Nmt>(); }

std::unique_ptr<Normalizer> read_prepend(Fields& fields) { return std::make_unique<Prepend>(fields.string("prepend")); }

std::unique_ptr<Normalizer> read_replace(Fields& fields) {
  Fields pattern(fields.at("pattern"), fields.where("pattern"));
  const bool regex = pattern.has("Regex");
  const std::string text = pattern.string(regex ? "Regex" : "String");
  pattern.finish();
  Pattern parsed = regex ? Pattern::parse(text, pattern.where()) : Pattern::literal(text, pattern.where());
  return std::make_unique<Replace>(std::move(parsed), fields.string("content"));
}

std::unique_ptr<Normalizer> read_normalizer_sequence(Fields& fields) {
  const nlohmann::json& list = fields.array("normalizers");
  std::vector<std::unique_ptr<Normalizer>> stages;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fields.where("normalizers") + "[" + std::to_string(i) + "]";
    stages.push_back(read_normalizer(list[i], where));
    FOVEA_CHECK_INPUT(stages.back() != nullptr, where, ": wanted an object, got null");
  }
  return std::make_unique<NormalizerSequence>(std::move(stages));
}

}  // namespace fovea::text
