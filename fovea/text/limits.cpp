// Columns of an Encoding joined, cut and filled: the sections "truncation" and "padding" of tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/text/post_processor.h"

namespace fovea::text {
namespace {

template <class F>
void for_each_column(Encoding& encoding, const F& f) {
  f(encoding.ids), f(encoding.tokens), f(encoding.offsets), f(encoding.word_ids);
  f(encoding.type_ids), f(encoding.attention_mask), f(encoding.special_tokens_mask);
}

// Keeps `length` tokens, the first or (from_left) the last ones. Columns that are empty stay so.
void shorten(Encoding& encoding, size_t length, bool from_left) {
  for_each_column(encoding, [&](auto& column) {
    if (column.size() <= length) return;
    if (from_left) column.erase(column.begin(), column.end() - static_cast<ptrdiff_t>(length));
    column.resize(length);
  });
}

size_t read_choice(Fields& fields, std::string_view key, const std::vector<std::string>& choices) {
  const std::string name = fields.string(key);
  const auto found = std::find(choices.begin(), choices.end(), name);
  FOVEA_CHECK_INPUT(found != choices.end(), fields.where(key), ": unknown value \"", name, "\"",
                    suggestion(name, choices));
  return static_cast<size_t>(found - choices.begin());
}

size_t read_length(Fields& fields, std::string_view key) {
  const int64_t length = fields.integer(key);
  constexpr int64_t kLongest = int64_t{1} << 24;  // padding to it must not exhaust the memory
  FOVEA_CHECK_INPUT(length <= kLongest, fields.where(key), ": ", length, " is too large (at most ", kLongest, ")");
  return static_cast<size_t>(length);
}

}  // namespace

void append(Encoding& to, const Encoding& from) {
  const auto add = [](auto& column, const auto& more) { column.insert(column.end(), more.begin(), more.end()); };
  add(to.ids, from.ids), add(to.tokens, from.tokens), add(to.offsets, from.offsets);
  add(to.word_ids, from.word_ids), add(to.type_ids, from.type_ids);
  add(to.attention_mask, from.attention_mask), add(to.special_tokens_mask, from.special_tokens_mask);
}

void append_special(Encoding& to, const SpecialToken& token, int64_t type_id, bool detailed) {
  to.ids.push_back(token.id);
  if (!detailed) return;
  to.tokens.push_back(token.token);
  to.offsets.emplace_back(0, 0);
  to.word_ids.push_back(-1);
  to.type_ids.push_back(type_id);
  to.attention_mask.push_back(1);
  to.special_tokens_mask.push_back(1);
}

void set_type(Encoding& encoding, int64_t type_id) {
  std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), type_id);
}

Truncation read_truncation(const nlohmann::json& object, const std::string& where) {
  Fields fields(object, where);
  Truncation out;
  out.max_length = read_length(fields, "max_length");
  out.strategy =
      static_cast<Truncation::Strategy>(read_choice(fields, "strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"}));
  out.from_left = fields.has("direction") && read_choice(fields, "direction", {"Right", "Left"}) == 1;
  fields.ignore("stride");  // how far the cut-off parts overlap, which we do not keep
  fields.finish();
  return out;
}

void truncate(const Truncation& truncation, size_t added, std::vector<Encoding>& parts, const std::string& where) {
  FOVEA_CHECK_INPUT(added <= truncation.max_length, where, ": max_length ", truncation.max_length,
                    " leaves no room for the ", added, " tokens that are put around the text");
  const size_t room = truncation.max_length - added;
  size_t first = parts[0].ids.size(), second = parts.size() > 1 ? parts[1].ids.size() : 0;
  if (first + second <= room) return;
  const size_t excess = first + second - room;
  if (room == 0) {
    first = second = 0;
  } else if (truncation.strategy == Truncation::Strategy::kLongestFirst) {
    // The shorter text stays whole as long as it is not above half.
    if (parts.size() == 1) {
      first = room;
    } else {
      const bool swapped = first > second;
      size_t shorter = std::min(first, second);
      size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
      if (shorter + longer > room) shorter = room / 2, longer = shorter + room % 2;
      first = swapped ? longer : shorter;
      second = swapped ? shorter : longer;
    }
  } else {
    const bool only_first = truncation.strategy == Truncation::Strategy::kOnlyFirst;
    FOVEA_CHECK_INPUT(only_first || parts.size() > 1, where, ": OnlySecond needs a second text");
    size_t& target = only_first ? first : second;
    FOVEA_CHECK_INPUT(target > excess, where, ": ", excess, " tokens are too many and the ",
                      only_first ? "first" : "second", " text has only ", target);
    target -= excess;
  }
  shorten(parts[0], first, truncation.from_left);
  if (parts.size() > 1) shorten(parts[1], second, truncation.from_left);
}

Padding read_padding(const nlohmann::json& object, const std::string& where) {
  Fields fields(object, where);
  Padding out;
  const nlohmann::json& strategy = fields.at("strategy");
  if (strategy.is_object()) {
    Fields fixed(strategy, fields.where("strategy"));
    out.length = read_length(fixed, "Fixed");
    fixed.finish();
  } else {
    read_choice(fields, "strategy", {"BatchLongest"});
  }
  out.on_left = read_choice(fields, "direction", {"Right", "Left"}) == 1;
  if (fields.has("pad_to_multiple_of")) out.multiple_of = read_length(fields, "pad_to_multiple_of");
  out.token = {fields.string("pad_token"), fields.integer("pad_id")};
  out.type_id = fields.integer("pad_type_id");
  fields.finish();
  return out;
}

void pad(const Padding& padding, Encoding& encoding, bool detailed) {
  size_t length = padding.length > 0 ? padding.length : encoding.ids.size();
  if (padding.multiple_of > 0) length = (length + padding.multiple_of - 1) / padding.multiple_of * padding.multiple_of;
  if (encoding.ids.size() >= length) return;
  Encoding filler;
  for (size_t i = encoding.ids.size(); i < length; ++i)
    append_special(filler, padding.token, padding.type_id, detailed);
  std::fill(filler.attention_mask.begin(), filler.attention_mask.end(), 0);
  if (padding.on_left) std::swap(filler, encoding);
  append(encoding, filler);
}

}  // namespace fovea::text
