// Text on its way from the caller to the model, and the way back: which bytes of the original stand behind each byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// Bytes [begin, end) of the original text.
struct Span {
  size_t begin = 0, end = 0;
};

// A stretch of text that a stage hands to the next. Valid during the call that hands it over.
struct Piece {
  // Bytes [begin, end) of a piece's text.
  struct Range {
    size_t begin = 0, end = 0;
  };

  std::string_view text;
  const Span* spans =
      nullptr;  // one for each byte; null: `text` is the original's, from byte `begin` on, or nobody asks
  size_t begin = 0;

  Piece part(size_t from, size_t to) const {
    return {text.substr(from, to - from), spans == nullptr ? nullptr : spans + from, begin + from};
  }
  // The original bytes behind [from, to), which must not be empty.
  Span span(size_t from, size_t to) const {
    if (spans == nullptr) return {begin + from, begin + to};
    return {spans[from].begin, spans[to - 1].end};
  }
};

// Receives the pieces of a stage, in order.
class PieceSink {
 public:
  virtual void take(const Piece& piece) = 0;

 protected:
  ~PieceSink() = default;
};

// Text that a stage changes. Written left to right from an old piece; untracked (no spans) it is only a string.
class AlignedText {
 public:
  // `tracked` false: nobody will ask for offsets.
  AlignedText(const Piece& piece, bool tracked);

  const std::string& text() const { return text_; }
  Piece piece() const { return {text_, tracked_ ? spans_.data() : nullptr, 0}; }

  // A step of a rewrite: `character` takes the place of the next old character and of `removed` more behind it; or,
  // where it is inserted, it shares the span of the old character before it.
  struct Step {
    char32_t character;
    bool inserted = false;
    size_t removed = 0;
  };
  void rewrite(const std::vector<Step>& steps);

  // Replaces each place (not empty, ascending) by `content`, which gets the span of the last byte replaced.
  void replace(const std::vector<Piece::Range>& places, std::string_view content);

  // Replaces each edit's place (not empty, ascending) by its content. The characters of the content get the spans of
  // those in the place one by one; surplus ones that of the last, but where the next edit removes what follows, the
  // last surplus one that of the first removed, as in the package.
  struct Edit {
    Piece::Range place;
    std::string_view content;
  };
  void edit(const std::vector<Edit>& edits);
  // Each character gets the span of the one `count` before it; the first ones keep theirs.
  void lag(size_t count);

  // Puts `content` before the first character, with that character's span. The text must not be empty.
  void prepend(std::string_view content);
  // Puts `content` behind the last character, with that character's span. The text must not be empty.
  void append(std::string_view content);
  // Keeps bytes [from, to) only.
  void cut(size_t from, size_t to);

 private:
  std::string text_;
  std::vector<Span> spans_;
  bool tracked_;
};

}  // namespace fovea::text
