// BERT's cleaning in one normaliser: controls out, blanks alike, Chinese characters apart, accents off, lower case.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <vector>

#include "fovea/text/normalizer.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

constexpr CategorySet kNonspacing = CategorySet{1} << UTF8PROC_CATEGORY_MN;
constexpr CategorySet kControl = CategorySet{1} << UTF8PROC_CATEGORY_CC | CategorySet{1} << UTF8PROC_CATEGORY_CF |
                                 CategorySet{1} << UTF8PROC_CATEGORY_CO;

struct Range {
  char32_t first, last;
};

template <size_t N>
bool contains(const Range (&ranges)[N], char32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges), [c](const Range& r) { return c >= r.first && c <= r.last; });
}

// What stands apart as if it were a word, as the package has it.
constexpr Range kChinese[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F},
                              {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};
// Nonspacing marks and format characters younger than the package's table of categories.
constexpr Range kYoungNonspacing[] = {{0x8D4, 0x8E1},     {0x1885, 0x1886},   {0x1DFB, 0x1DFB},   {0xA8C5, 0xA8C5},
                                      {0xA9BD, 0xA9BD},   {0x1123E, 0x1123E}, {0x11438, 0x11446}, {0x11C30, 0x11CB6},
                                      {0x1E000, 0x1E02A}, {0x1E944, 0x1E94A}};
constexpr Range kYoungFormat[] = {{0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};

bool is_accent(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734) return true;  // a spacing mark since Unicode 14
  return (category_of(c) & kNonspacing) != 0 && !is_younger_than_forms(c) && !contains(kYoungNonspacing, c);
}

bool is_dropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0xFFFD || ((category_of(c) & kControl) != 0 && !contains(kYoungFormat, c));
}

// Takes out the characters of a kind.
template <class IsDropped>
void drop(AlignedText& text, const IsDropped& is_dropped) {
  std::vector<Piece::Range> places;
  const std::string& old = text.text();
  for (const char *p = old.data(), *end = p + old.size(); p < end;) {
    const auto begin = static_cast<size_t>(p - old.data());
    if (is_dropped(next_character(p))) places.push_back({begin, static_cast<size_t>(p - old.data())});
  }
  text.replace(places, "");
}

class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean, bool chinese, bool accents, bool lower)
      : clean_(clean), chinese_(chinese), accents_(accents), lower_(lower) {}

  void apply(AlignedText& text) const override {
    if (clean_) drop(text, is_dropped);
    if (clean_ || chinese_) space(text);
    if (accents_) {
      decompose_canonically(text);
      drop(text, is_accent);
    }
    if (lower_) lowercase(text);
  }

 private:
  void space(AlignedText& text) const {
    std::vector<AlignedText::Step> steps;
    const std::string& old = text.text();
    steps.reserve(old.size());
    for (const char *p = old.data(), *end = p + old.size(); p < end;) {
      const char32_t c = next_character(p);
      if (chinese_ && c >= 0x3400 && contains(kChinese, c)) {
        steps.insert(steps.end(), {{' '}, {c, true}, {' ', true}});
      } else {
        steps.push_back({clean_ && is_white_space(c) ? U' ' : c});
      }
    }
    text.rewrite(steps);
  }

  bool clean_, chinese_, accents_, lower_;
};

}  // namespace

std::unique_ptr<Normalizer> read_bert_normalizer(Fields& fields) {
  const bool clean = fields.boolean("clean_text"), chinese = fields.boolean("handle_chinese_chars");
  const bool lower = fields.boolean("lowercase");
  const bool accents = fields.boolean("strip_accents", lower);  // null: as lower case
  return std::make_unique<BertNormalizer>(clean, chinese, accents, lower);
}

}  // namespace fovea::text
