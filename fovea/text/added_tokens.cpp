// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/added_tokens.h"

#include <algorithm>

#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

bool ends_in_word(std::string_view text) {
  return !text.empty() && is_word(character_at(previous_character(text.data() + text.size())));
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word(character_at(text.data())); }

// Start of the blanks that end `text`.
size_t trailing_blanks(std::string_view text) {
  const char* p = text.data() + text.size();
  while (p > text.data()) {
    const char* before = previous_character(p);
    if (!is_white_space(character_at(before))) break;
    p = before;
  }
  return static_cast<size_t>(p - text.data());
}

// Length of the blanks that start `text`.
size_t leading_blanks(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const char* after = p;
    if (!is_white_space(next_character(after))) break;
    p = after;
  }
  return static_cast<size_t>(p - text.data());
}

}  // namespace

void TextMatcher::add(std::string_view text, size_t index) {
  if (text.empty()) return;
  if (nodes_.empty()) nodes_.emplace_back();
  first_[static_cast<uint8_t>(text[0])] = true;
  uint32_t at = 0;
  for (const char byte : text) {
    const auto& children = nodes_[at].children;
    const auto child = std::find_if(children.begin(), children.end(), [&](const auto& c) { return c.first == byte; });
    if (child != children.end()) {
      at = child->second;
      continue;
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    nodes_[at].children.emplace_back(byte, fresh);
    nodes_.emplace_back();
    at = fresh;
  }
  if (!nodes_[at].index) nodes_[at].index = index;
}

std::optional<TextMatcher::Match> TextMatcher::find(std::string_view text, size_t from) const {
  if (nodes_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> best;
    uint32_t at = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto& children = nodes_[at].children;
      const auto child =
          std::find_if(children.begin(), children.end(), [&](const auto& c) { return c.first == text[i]; });
      if (child == children.end()) break;
      at = child->second;
      if (nodes_[at].index) best = Match{begin, i + 1, *nodes_[at].index};
    }
    if (best) return best;
  }
  return std::nullopt;
}

void AddedTokens::index() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    by_content_.emplace(tokens_[i].content, i);
    by_id_.emplace(tokens_[i].id, i);
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<AddedTokens::Place> AddedTokens::next(const TextMatcher& matcher, std::string_view text, size_t done,
                                                    size_t& search) const {
  while (const auto match = matcher.find(text, search)) {
    search = match->end;
    const AddedToken& token = tokens_[match->index];
    Place place{match->begin, match->end, &token};
    if (token.single_word && (ends_in_word(text.substr(0, place.begin)) || starts_with_word(text.substr(place.end))))
      continue;
    // Blanks that the token before has taken are not taken again.
    if (token.left_strip) place.begin = std::max(trailing_blanks(text.substr(0, place.begin)), done);
    if (token.right_strip) place.end += leading_blanks(text.substr(place.end));
    if (place.begin >= place.end) continue;
    return place;
  }
  return std::nullopt;
}

}  // namespace fovea::text
