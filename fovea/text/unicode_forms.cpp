// Unicode normalisation forms (UAX 15) that keep track of where each character came from. Decomposition, combining
// classes and compositions are utf8proc's; order and bookkeeping are ours.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

// A character on its way: `surplus` is how many characters it stands for too many (+1: made by decomposing the one
// before) or too few (-2: two more of the old text went into it).
struct Unit {
  char32_t c;
  int combining_class;
  int surplus;
};

int combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const int value = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  return value != 0 && is_younger_than_forms(c) ? 0 : value;
}

std::vector<Unit> decompose(const std::string& text, bool compatible) {
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<Unit> out;
  out.reserve(text.size());
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const char32_t c = next_character(p);
    if (c < 0x80 || is_younger_than_forms(c)) {
      out.push_back({c, 0, 0});
      continue;
    }
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                               static_cast<utf8proc_option_t>(options), &boundary);
    FOVEA_ASSERT(count > 0 && count <= 32, "decomposition of code point ", static_cast<uint32_t>(c));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      out.push_back({part, combining_class(part), i > 0 ? 1 : 0});
    }
  }
  return out;
}

// Canonical order: marks between two starters by class, equals as they came.
void reorder(std::vector<Unit>& units) {
  const auto is_mark = [](const Unit& unit) { return unit.combining_class != 0; };
  const auto by_class = [](const Unit& a, const Unit& b) { return a.combining_class < b.combining_class; };
  for (auto begin = units.begin(); begin != units.end();) {
    begin = std::find_if(begin, units.end(), is_mark);
    const auto end = std::find_if_not(begin, units.end(), is_mark);
    std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

// The character that `first` and `second` compose to, or 0.
char32_t composition(char32_t first, char32_t second) {
  // No composition ends in ASCII or Latin; and utf8proc takes U+11A7, which is none, for a trailing Hangul consonant.
  if (second < 0x300 || second == 0x11A7 || is_younger_than_forms(second)) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const int options = UTF8PROC_COMPOSE | UTF8PROC_STABLE;
  const auto count = utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(options));
  return count == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

std::vector<Unit> compose(const std::vector<Unit>& units) {
  std::vector<Unit> out;
  out.reserve(units.size());
  size_t starter = SIZE_MAX;
  int last_class = -1;  // of the marks left standing since the starter; -1: none
  for (const Unit& unit : units) {
    if (starter != SIZE_MAX && last_class < unit.combining_class) {
      if (const char32_t joined = composition(out[starter].c, unit.c)) {
        out[starter].c = joined;
        out[starter].surplus += unit.surplus - 1;
        continue;
      }
    }
    last_class = unit.combining_class;
    if (unit.combining_class == 0) starter = out.size(), last_class = -1;
    out.push_back(unit);
  }
  return out;
}

class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(bool compatible, bool composed) : compatible_(compatible), composed_(composed) {}

  void apply(AlignedText& text) const override {
    const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
    if (std::all_of(text.text().begin(), text.text().end(), is_ascii)) return;
    std::vector<Unit> units = decompose(text.text(), compatible_);
    reorder(units);
    if (composed_) units = compose(units);
    std::vector<AlignedText::Step> steps;
    steps.reserve(units.size());
    for (const Unit& unit : units)
      steps.push_back({unit.c, unit.surplus > 0, unit.surplus < 0 ? static_cast<size_t>(-unit.surplus) : 0});
    text.rewrite(steps);
  }

 private:
  bool compatible_, composed_;
};

}  // namespace

void decompose_canonically(AlignedText& text) { UnicodeForm(false, false).apply(text); }

std::unique_ptr<Normalizer> read_nfc(Fields&) { return std::make_unique<UnicodeForm>(false, true); }
std::unique_ptr<Normalizer> read_nfd(Fields&) { return std::make_unique<UnicodeForm>(false, false); }
std::unique_ptr<Normalizer> read_nfkc(Fields&) { return std::make_unique<UnicodeForm>(true, true); }
std::unique_ptr<Normalizer> read_nfkd(Fields&) { return std::make_unique<UnicodeForm>(true, false); }

}  // namespace fovea::text
