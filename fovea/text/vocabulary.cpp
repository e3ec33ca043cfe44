// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/vocabulary.h"

#include <algorithm>

#include "fovea/base/check.h"
#include "fovea/text/hash.h"
#include "fovea/text/json_text.h"

namespace fovea::text {

Vocabulary::Vocabulary(const std::vector<std::pair<std::string, int64_t>>& tokens, std::string_view source,
                       Repeats repeats)
    : slots_(table_size(tokens.size())), count_(tokens.size()) {
  // A wild id must not make us allocate the gap before it.
  const int64_t limit = 2 * static_cast<int64_t>(tokens.size()) + 1'000'000;
  int64_t end = 0;
  size_t total = 0;
  for (const auto& [token, id] : tokens) {
    FOVEA_CHECK_INPUT(id >= 0 && id < limit, source, ": token \"", token, "\" has the id ", id, "; a vocabulary of ",
                      tokens.size(), " tokens has smaller ones");
    end = std::max(end, id + 1);
    total += token.size();
  }
  FOVEA_CHECK_INPUT(total < UINT32_MAX, source, ": the vocabulary is larger than 4 GB");
  places_.resize(static_cast<size_t>(end));
  bytes_.reserve(total);
  const size_t mask = slots_.size() - 1;
  for (const auto& [token, id] : tokens) {
    Place& place = places_[static_cast<size_t>(id)];
    FOVEA_CHECK_INPUT(place.size == kGap, source, ": tokens \"", at(static_cast<Id>(id)), "\" and \"", token,
                      "\" have the same id ", id);
    const auto hash = static_cast<uint32_t>(hash_bytes(token));
    size_t slot = hash & mask;
    for (; slots_[slot].id != kFree; slot = (slot + 1) & mask) {
      if (slots_[slot].hash != hash || at(slots_[slot].id) != token) continue;
      FOVEA_CHECK_INPUT(repeats == Repeats::kLastCounts, source, ": the token \"", token, "\" is given twice");
      break;
    }
    slots_[slot] = {hash, static_cast<Id>(id)};
    place = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size())};
    bytes_.append(token);
  }
}

std::optional<Vocabulary::Id> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const auto hash = static_cast<uint32_t>(hash_bytes(token));
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask; slots_[slot].id != kFree; slot = (slot + 1) & mask) {
    if (slots_[slot].hash == hash && at(slots_[slot].id) == token) return slots_[slot].id;
  }
  return std::nullopt;
}

std::optional<std::string_view> Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= end_id() || places_[static_cast<size_t>(id)].size == kGap) return std::nullopt;
  return at(static_cast<Id>(id));
}

void Vocabulary::write_json(std::string& out) const {
  out += '{';
  const char* separator = "\n      ";
  for (int64_t id = 0; id < end_id(); ++id) {
    const auto text = token(id);
    if (!text) continue;
    out += separator + json_string(*text) + ": " + std::to_string(id);
    separator = ",\n      ";
  }
  out += "\n    }";
}

}  // namespace fovea::text
