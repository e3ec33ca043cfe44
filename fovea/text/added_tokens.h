// Tokens that are looked for in the text itself, before any model sees it: <|endoftext|>, [MASK] and what users add.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/text/piece.h"

namespace fovea::text {

struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false;                      // not inside a word
  bool left_strip = false, right_strip = false;  // takes the blanks on that side with it
  bool normalized = true;                        // looked for in the normalised text
  bool special = false;                          // decoding may leave it out
};

// Finds the longest of several strings at the leftmost place.
class TextMatcher {
 public:
  // `index` is what find() reports. Empty strings are not looked for; of equal ones the first counts.
  void add(std::string_view text, size_t index);
  bool empty() const { return nodes_.empty(); }

  struct Match {
    size_t begin, end, index;
  };
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> children;
    std::optional<size_t> index;
  };
  std::vector<Node> nodes_;
  std::array<bool, 256> first_{};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // `normalize` gives a token's form in normalised text.
  template <class Normalize>
  AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize) : tokens_(std::move(tokens)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      (token.normalized ? normalized_ : raw_).add(token.normalized ? normalize(token.content) : token.content, i);
    }
    index();
  }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int64_t id) const;

  // Whether any token is looked for in the text as it is (raw), or once it is normalised.
  bool any_raw() const { return !raw_.empty(); }
  bool any_normalized() const { return !normalized_.empty(); }

  // Cuts `piece` at the tokens; calls text(piece) and token(AddedToken, piece) in order, never with an empty piece.
  template <class OnText, class OnToken>
  void cut_raw(const Piece& piece, const OnText& text, const OnToken& token) const {
    cut(raw_, piece, text, token);
  }
  template <class OnText, class OnToken>
  void cut_normalized(const Piece& piece, const OnText& text, const OnToken& token) const {
    cut(normalized_, piece, text, token);
  }

 private:
  struct Place {
    size_t begin, end;
    const AddedToken* token;
  };
  void index();
  // The next place at or after `search`; `search` moves on. `done` is the end of the last place.
  std::optional<Place> next(const TextMatcher& matcher, std::string_view text, size_t done, size_t& search) const;

  template <class OnText, class OnToken>
  void cut(const TextMatcher& matcher, const Piece& piece, const OnText& text, const OnToken& token) const {
    size_t done = 0, search = 0;
    while (const auto place = next(matcher, piece.text, done, search)) {
      if (done < place->begin) text(piece.part(done, place->begin));
      token(*place->token, piece.part(place->begin, place->end));
      done = place->end;
    }
    if (done < piece.text.size()) text(piece.part(done, piece.text.size()));
  }

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int64_t, size_t> by_id_;
  TextMatcher raw_, normalized_;
};

}  // namespace fovea::text
