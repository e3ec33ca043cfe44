// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/bpe.h"

#include <algorithm>
#include <cstdio>

#include "fovea/base/check.h"
#include "fovea/text/byte_alphabet.h"
#include "fovea/text/json_text.h"
#include "fovea/text/utf8_step.h"
#include "fovea/text/word_cache.h"

namespace fovea::text {

struct Bpe::Scratch : Model::Workspace {
  static constexpr uint32_t kEnd = UINT32_MAX;

  // The word's symbols; while merging, ranks[i] is the rank of symbol i with its right neighbour.
  std::vector<uint32_t> ids, sizes, ranks;
  std::vector<uint32_t> previous, next;  // merge_long: neighbours; sizes 0 marks a symbol that is gone
  std::vector<uint64_t> queue;           // merge_long: rank and position
  std::string spelling;
  WordCache cache;

  void clear() { ids.clear(), sizes.clear(); }
  void add(uint32_t id, size_t size) { ids.push_back(id), sizes.push_back(static_cast<uint32_t>(size)); }
};

Bpe::Bpe(BpeOptions options, Vocabulary vocabulary, const std::vector<Merge>& merges, std::string_view source)
    : options_(std::move(options)), vocabulary_(std::move(vocabulary)) {
  if (!options_.unknown_token.empty()) {
    unknown_ = vocabulary_.find(options_.unknown_token).value_or(kNone);
  }
  build_merges(merges, source);
  build_bytes(source);
  // Where every byte has a token it is never needed, and files name one all the same.
  const bool needed = !options_.byte_level || std::count(byte_ids_.begin(), byte_ids_.end(), kNone) > 0;
  FOVEA_CHECK_INPUT(options_.unknown_token.empty() || unknown_ != kNone || !needed, source, ": the unknown token \"",
                    options_.unknown_token, "\" is not in the vocabulary");
}

void Bpe::build_merges(const std::vector<Merge>& merges, std::string_view source) {
  const auto id_of = [&](std::string_view token, const Merge& merge) {
    const auto id = vocabulary_.find(token);
    FOVEA_CHECK_INPUT(id, source, ": the merge \"", merge.first, " ", merge.second, "\" needs the token \"", token,
                      "\", which is not in the vocabulary");
    return *id;
  };
  if (!merges.empty()) table_.reserve(merges.size());
  merges_.reserve(merges.size());
  std::string joined;
  for (const Merge& merge : merges) {
    const std::string_view right = merge.second;
    joined = merge.first;
    joined += right.starts_with(options_.continuing_prefix) ? right.substr(options_.continuing_prefix.size()) : right;
    const uint32_t left_id = id_of(merge.first, merge), right_id = id_of(right, merge);
    table_.set({left_id, right_id, static_cast<uint32_t>(merges_.size()), id_of(joined, merge)});
    merges_.emplace_back(left_id, right_id);
  }
}

void Bpe::build_bytes(std::string_view source) {
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string spelling;
    if (options_.byte_level) {
      const char raw = static_cast<char>(byte);
      spelling = bytes_to_alphabet({&raw, 1});
    } else if (byte < 128) {
      spelling = std::string(1, static_cast<char>(byte));
    }
    byte_ids_[byte] = vocabulary_.find(spelling).value_or(kNone);
    char code[8];
    std::snprintf(code, sizeof code, "<0x%02X>", static_cast<unsigned>(byte));
    fallback_ids_[byte] = options_.byte_fallback ? vocabulary_.find(code).value_or(kNone) : kNone;
    FOVEA_CHECK_INPUT(!options_.byte_level || !options_.byte_fallback || byte_ids_[byte] != kNone, source,
                      ": byte_fallback with a byte-level vocabulary that lacks a byte is not supported");
  }
  if (!options_.byte_level || !options_.ignore_merges) return;
  std::vector<std::pair<std::string, int64_t>> spelled;
  for (int64_t id = 0; id < vocabulary_.end_id(); ++id) {
    const auto token = vocabulary_.token(id);
    if (!token) continue;
    if (auto bytes = alphabet_to_bytes(*token)) spelled.emplace_back(std::move(*bytes), id);
  }
  spelled_ = Vocabulary(spelled, source);
}

std::unique_ptr<Model::Workspace> Bpe::make_workspace() const { return std::make_unique<Scratch>(); }

std::optional<int64_t> Bpe::token_to_id(std::string_view token) const {
  const auto id = vocabulary_.find(token);
  if (!id) return std::nullopt;
  return static_cast<int64_t>(*id);
}

TokenRun Bpe::tokenize(std::string_view word, Workspace& workspace) const {
  auto& scratch = static_cast<Scratch&>(workspace);
  scratch.clear();
  if (word.empty()) return {};
  const auto finished = [&]() -> TokenRun { return {scratch.ids.data(), scratch.sizes.data(), scratch.ids.size()}; };
  if (word.size() > WordCache::kLongestWord) {
    tokenize_slowly(word, scratch);
    return finished();
  }
  WordCache::Entry& entry = scratch.cache.entry(word);
  if (WordCache::holds(entry, word)) {
    scratch.sizes.assign(entry.sizes, entry.sizes + entry.count);
    return {entry.ids, scratch.sizes.data(), entry.count};
  }
  tokenize_slowly(word, scratch);
  if (scratch.ids.size() <= WordCache::kMostTokens)
    WordCache::store(entry, word, scratch.ids.data(), scratch.sizes.data(), scratch.ids.size());
  return finished();
}

bool Bpe::tokenize_whole(std::string_view word, Scratch& scratch) const {
  if (!options_.ignore_merges) return false;
  const auto id = options_.byte_level ? spelled_.find(word) : vocabulary_.find(word);
  if (id) scratch.add(*id, word.size());
  return id.has_value();
}

void Bpe::tokenize_slowly(std::string_view word, Scratch& scratch) const {
  if (tokenize_whole(word, scratch)) return;
  if (options_.byte_level) {
    start_bytes(word, scratch);
  } else {
    start_characters(word, scratch);
  }
  if (table_.empty() || scratch.ids.size() < 2) return;
  constexpr size_t kShort = 48;  // below it, a scan of the ranks beats a queue
  if (scratch.ids.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
}

void Bpe::start_bytes(std::string_view word, Scratch& scratch) const {
  size_t pending = 0;  // bytes of an unknown token under construction
  const auto flush = [&] {
    if (pending > 0) scratch.add(unknown_, pending);
    pending = 0;
  };
  const bool affixes = !options_.continuing_prefix.empty() || !options_.end_suffix.empty();
  for (size_t i = 0; i < word.size(); ++i) {
    uint32_t id = byte_ids_[static_cast<uint8_t>(word[i])];
    if (affixes) {
      std::string& spelling = scratch.spelling;
      spelling = (i > 0 ? options_.continuing_prefix : "") + bytes_to_alphabet(word.substr(i, 1));
      if (i + 1 == word.size()) spelling += options_.end_suffix;
      id = vocabulary_.find(spelling).value_or(kNone);
    }
    if (id != kNone) {
      flush();
      scratch.add(id, 1);
    } else if (unknown_ != kNone) {
      if (!options_.fuse_unknown) flush();
      ++pending;
    }
  }
  flush();
}

void Bpe::start_characters(std::string_view word, Scratch& scratch) const {
  size_t pending = 0;
  const auto flush = [&] {
    if (pending > 0) scratch.add(unknown_, pending);
    pending = 0;
  };
  const bool affixes = !options_.continuing_prefix.empty() || !options_.end_suffix.empty();
  std::string& spelling = scratch.spelling;
  for (size_t i = 0, size = 0; i < word.size(); i += size) {
    size = character_size(word[i]);
    std::string_view text = word.substr(i, size);
    if (affixes) {
      spelling = i > 0 ? options_.continuing_prefix : "";
      spelling += text;
      if (i + size == word.size()) spelling += options_.end_suffix;
      text = spelling;
    }
    const uint32_t id =
        text.size() == 1 ? byte_ids_[static_cast<uint8_t>(text[0])] : vocabulary_.find(text).value_or(kNone);
    if (id != kNone) {
      flush();
      scratch.add(id, size);
      continue;
    }
    const auto has_code = [&](char byte) { return fallback_ids_[static_cast<uint8_t>(byte)] != kNone; };
    if (options_.byte_fallback && std::all_of(text.begin(), text.end(), has_code)) {
      // As in the package, an unknown token under construction waits until behind these.
      for (const char byte : text) scratch.add(fallback_ids_[static_cast<uint8_t>(byte)], 1);
    } else if (unknown_ != kNone) {
      if (!options_.fuse_unknown) flush();
      pending += size;
    }
  }
  flush();
}

void Bpe::merge_short(Scratch& scratch) const {
  auto& ids = scratch.ids;
  auto& sizes = scratch.sizes;
  auto& ranks = scratch.ranks;
  size_t count = ids.size();
  const auto rank_at = [&](size_t i) { return i + 1 < count ? table_.find(ids[i], ids[i + 1]).rank : kNone; };
  ranks.resize(count);
  for (size_t i = 0; i < count; ++i) ranks[i] = rank_at(i);
  while (true) {
    const auto least = std::min_element(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(count));
    if (*least == kNone) break;
    const auto i = static_cast<size_t>(least - ranks.begin());
    ids[i] = table_.find(ids[i], ids[i + 1]).merged;
    sizes[i] += sizes[i + 1];
    const auto close_gap = [&](std::vector<uint32_t>& v) {
      std::copy(v.begin() + static_cast<ptrdiff_t>(i) + 2, v.begin() + static_cast<ptrdiff_t>(count),
                v.begin() + static_cast<ptrdiff_t>(i) + 1);
    };
    close_gap(ids), close_gap(sizes), close_gap(ranks);
    --count;
    ranks[i] = rank_at(i);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
  }
  ids.resize(count);
  sizes.resize(count);
}

void Bpe::merge_long(Scratch& scratch) const {
  auto& s = scratch;
  const auto count = static_cast<uint32_t>(s.ids.size());
  s.ranks.assign(count, kNone);
  s.previous.resize(count);
  s.next.resize(count);
  s.queue.clear();
  // The smallest key on top: lowest rank, then leftmost.
  const auto later = [](uint64_t a, uint64_t b) { return a > b; };
  const auto refresh = [&](uint32_t i) {
    s.ranks[i] = s.next[i] == Scratch::kEnd ? kNone : table_.find(s.ids[i], s.ids[s.next[i]]).rank;
    if (s.ranks[i] != kNone) s.queue.push_back(uint64_t{s.ranks[i]} << 32 | i);
    return s.ranks[i] != kNone;
  };
  for (uint32_t i = 0; i < count; ++i) {
    s.previous[i] = i == 0 ? Scratch::kEnd : i - 1;
    s.next[i] = i + 1 == count ? Scratch::kEnd : i + 1;
    refresh(i);
  }
  std::make_heap(s.queue.begin(), s.queue.end(), later);
  while (!s.queue.empty()) {
    const uint64_t top = s.queue.front();
    std::pop_heap(s.queue.begin(), s.queue.end(), later);
    s.queue.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (s.ranks[i] != top >> 32) continue;  // merged since, here or with a neighbour
    const uint32_t right = s.next[i];
    s.ids[i] = table_.find(s.ids[i], s.ids[right]).merged;
    s.sizes[i] += s.sizes[right];
    s.sizes[right] = 0;
    s.ranks[right] = kNone;
    s.next[i] = s.next[right];
    if (s.next[i] != Scratch::kEnd) s.previous[s.next[i]] = i;
    if (refresh(i)) std::push_heap(s.queue.begin(), s.queue.end(), later);
    if (i > 0 && refresh(s.previous[i])) std::push_heap(s.queue.begin(), s.queue.end(), later);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (s.sizes[i] > 0) s.ids[kept] = s.ids[i], s.sizes[kept] = s.sizes[i], ++kept;
  }
  s.ids.resize(kept);
  s.sizes.resize(kept);
}

void Bpe::write_json(std::string& out) const {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const auto text = [](const std::string& value) { return value.empty() ? std::string("null") : json_string(value); };
  out += R"({"type": "BPE", "dropout": null, "unk_token": )" + text(options_.unknown_token);
  out += ", \"continuing_subword_prefix\": " + text(options_.continuing_prefix);
  out += ", \"end_of_word_suffix\": " + text(options_.end_suffix);
  out += std::string(", \"fuse_unk\": ") + flag(options_.fuse_unknown);
  out += std::string(", \"byte_fallback\": ") + flag(options_.byte_fallback);
  out += std::string(", \"ignore_merges\": ") + flag(options_.ignore_merges) + ",\n    \"vocab\": ";
  vocabulary_.write_json(out);
  out += ",\n    \"merges\": [";
  const char* separator = "\n      ";
  for (const auto& [left, right] : merges_) {
    out +=
        separator + ("[" + json_string(*vocabulary_.token(left))) + ", " + json_string(*vocabulary_.token(right)) + "]";
    separator = ",\n      ";
  }
  out += "\n    ]\n  }";
}

}  // namespace fovea::text
