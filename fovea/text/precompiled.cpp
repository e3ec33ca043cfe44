// The normaliser "Precompiled": sentencepiece's rules from the file itself, applied the way the package applies them.
// SPDX-License-Identifier: Apache-2.0
#include <utf8proc.h>

#include <array>
#include <utility>
#include <vector>

#include "fovea/text/charsmap.h"
#include "fovea/text/normalizer.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

// Whether a grapheme cluster (UAX 29) ends between two characters; `state` starts as 0 in each cluster.
bool cluster_breaks(char32_t left, char32_t right, utf8proc_int32_t& state) {
  if (left < 0x300 && right < 0x300) return left != '\r' || right != '\n';  // no marks there
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                          &state);
}

// End of the cluster that starts at `begin`.
size_t cluster_end(std::string_view text, size_t begin) {
  const char* p = text.data() + begin;
  const char* end = text.data() + text.size();
  utf8proc_int32_t state = 0;
  char32_t left = next_character(p);
  while (p < end) {
    const char* behind = p;
    const char32_t right = next_character(behind);
    if (cluster_breaks(left, right, state)) break;
    left = right;
    p = behind;
  }
  return static_cast<size_t>(p - text.data());
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (int c = 0; c < 128; ++c) {
      const char text = static_cast<char>(c);
      kept_[static_cast<size_t>(c)] = c != '\r' && !map_.find({&text, 1});
    }
  }

  void apply(AlignedText& text) const override {
    const std::string_view old = text.text();
    std::vector<AlignedText::Edit> edits;
    size_t lost = 0;  // characters removed at the start
    bool at_start = true;
    const auto look = [&](size_t begin, size_t end) {
      const auto content = map_.find(old.substr(begin, end - begin));
      if (content) edits.push_back({{begin, end}, *content});
      if (at_start && content && content->empty()) {
        for (size_t i = begin; i < end; ++i) lost += starts_character(old[i]);
      } else {
        at_start = false;
      }
      return content.has_value();
    };
    const auto is_kept = [&](size_t at) {
      return at == old.size() || (static_cast<uint8_t>(old[at]) < 128 && kept_[static_cast<uint8_t>(old[at])]);
    };
    for (size_t begin = 0; begin < old.size();) {
      // ASCII before ASCII stands alone.
      if (is_kept(begin) && is_kept(begin + 1)) {
        ++begin, at_start = false;
        continue;
      }
      const size_t end = cluster_end(old, begin);
      // A cluster of up to five bytes is looked up as a whole, and a rule for its start then replaces all of it.
      constexpr size_t kLongest = 5;
      if (end - begin <= kLongest && look(begin, end)) {
        begin = end;
        continue;
      }
      for (size_t size = 0; begin < end; begin += size) look(begin, begin + (size = character_size(old[begin])));
    }
    // In the package characters removed at the start shift what stands behind.
    if (lost > 0) text.lag(lost);
    text.edit(edits);
  }

 private:
  Charsmap map_;
  std::array<bool, 128> kept_{};  // ASCII characters without a rule
};

}  // namespace

std::unique_ptr<Normalizer> read_precompiled(Fields& fields) {
  const std::string where = fields.where("precompiled_charsmap");
  return std::make_unique<Precompiled>(Charsmap(decode_base64(fields.string("precompiled_charsmap"), where), where));
}

}  // namespace fovea::text
