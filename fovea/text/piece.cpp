// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/piece.h"

#include <algorithm>

#include "fovea/base/utf8.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {

AlignedText::AlignedText(const Piece& piece, bool tracked) : text_(piece.text), tracked_(tracked) {
  if (!tracked) return;
  if (piece.spans != nullptr) {
    spans_.assign(piece.spans, piece.spans + piece.text.size());
    return;
  }
  // All bytes of a character share its span, so that no offset ever points inside one.
  spans_.reserve(text_.size());
  for (size_t i = 0; i < text_.size();) {
    const size_t size = character_size(text_[i]);
    spans_.insert(spans_.end(), size, Span{piece.begin + i, piece.begin + i + size});
    i += size;
  }
}

void AlignedText::rewrite(const std::vector<Step>& steps) {
  std::string text;
  std::vector<Span> spans;
  text.reserve(text_.size());
  spans.reserve(spans_.size());
  size_t at = 0;  // the next old character
  for (const Step& step : steps) {
    const size_t before = text.size();
    append_utf8(text, step.character);
    if (tracked_) {
      const Span span = !step.inserted ? spans_[at] : at > 0 ? spans_[at - 1] : Span{};
      spans.insert(spans.end(), text.size() - before, span);
    }
    if (step.inserted) continue;
    for (size_t i = 0; i <= step.removed && at < text_.size(); ++i) at += character_size(text_[at]);
  }
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void AlignedText::replace(const std::vector<Piece::Range>& places, std::string_view content) {
  if (places.empty()) return;
  std::string text;
  std::vector<Span> spans;
  size_t copied = 0;
  const auto copy = [&](size_t to) {
    text.append(text_, copied, to - copied);
    if (tracked_)
      spans.insert(spans.end(), spans_.begin() + static_cast<ptrdiff_t>(copied),
                   spans_.begin() + static_cast<ptrdiff_t>(to));
  };
  for (const Piece::Range& place : places) {
    copy(place.begin);
    text.append(content);
    if (tracked_) spans.insert(spans.end(), content.size(), spans_[place.end - 1]);
    copied = place.end;
  }
  copy(text_.size());
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void AlignedText::edit(const std::vector<Edit>& edits) {
  if (edits.empty()) return;
  std::string text;
  std::vector<Span> spans;
  text.reserve(text_.size());
  spans.reserve(spans_.size());
  size_t copied = 0;
  const auto copy = [&](size_t to) {
    text.append(text_, copied, to - copied);
    if (tracked_)
      spans.insert(spans.end(), spans_.begin() + static_cast<ptrdiff_t>(copied),
                   spans_.begin() + static_cast<ptrdiff_t>(to));
  };
  size_t surplus = 0;  // bytes of the last character if it is one too many for its place
  for (const auto& [place, content] : edits) {
    if (place.begin != copied) surplus = 0;
    copy(place.begin);
    text.append(content);
    if (tracked_) {
      if (content.empty()) std::fill_n(spans.end() - static_cast<ptrdiff_t>(surplus), surplus, spans_[place.begin]);
      surplus = 0;
      size_t old = place.begin, next = old;
      for (size_t i = 0, size = 0; i < content.size(); i += size) {
        size = character_size(content[i]);
        surplus = next == place.end ? size : 0;
        if (next < place.end) old = next, next += character_size(text_[old]);
        spans.insert(spans.end(), size, spans_[old]);
      }
    }
    copied = place.end;
  }
  copy(text_.size());
  text_ = std::move(text);
  spans_ = std::move(spans);
}

void AlignedText::lag(size_t count) {
  if (!tracked_) return;
  std::vector<Span> spans = spans_;
  const auto step = [&](size_t at) { return at + character_size(text_[at]); };
  size_t from = 0, to = 0;
  for (size_t i = 0; i < count && to < text_.size(); ++i) to = step(to);
  for (; to < text_.size(); to = step(to), from = step(from))
    std::fill_n(spans.begin() + static_cast<ptrdiff_t>(to), character_size(text_[to]), spans_[from]);
  spans_ = std::move(spans);
}

void AlignedText::prepend(std::string_view content) {
  text_.insert(0, content);
  if (tracked_) spans_.insert(spans_.begin(), content.size(), Span(spans_.front()));
}

void AlignedText::append(std::string_view content) {
  text_.append(content);
  if (tracked_) spans_.insert(spans_.end(), content.size(), Span(spans_.back()));
}

void AlignedText::cut(size_t from, size_t to) {
  text_ = text_.substr(from, to - from);
  if (tracked_) spans_ = {spans_.begin() + static_cast<ptrdiff_t>(from), spans_.begin() + static_cast<ptrdiff_t>(to)};
}

}  // namespace fovea::text
