// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/byte_alphabet.h"
#include "fovea/text/gpt2_split.h"
#include "fovea/text/hash.h"
#include "fovea/text/pattern.h"
#include "fovea/text/pre_tokenizer.h"
#include "fovea/text/tokenizer_file.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

using text::hash_bytes;
using text::table_size;

uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// Open addressing over pairs of ids; grows, never shrinks.
template <class Value>
class PairMap {
 public:
  Value& operator[](uint64_t key) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = find(key);
    if (slot.key == kFree) slot.key = key, ++count_;
    return slot.value;
  }
  template <class F>
  void for_each(const F& f) {
    for (Slot& slot : slots_)
      if (slot.key != kFree) f(slot.key, slot.value);
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Value value{};
  };
  Slot& find(uint64_t key) {
    const size_t mask = slots_.size() - 1;
    size_t at = text::mix(key, 0x9E3779B97F4A7C15u) & mask;
    while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(1024, 2 * slots_.size())));
    for (Slot& slot : old)
      if (slot.key != kFree) find(slot.key) = std::move(slot);
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// Different words of the texts and how often each occurs.
class WordCounts : public text::PieceSink {
 public:
  struct Word {
    std::string_view text;
    int64_t count = 0;
  };
  void take(const text::Piece& piece) override {
    if (2 * (words_.size() + 1) > slots_.size()) grow();
    uint32_t& slot = find(piece.text);
    if (slot == kFree) slot = static_cast<uint32_t>(words_.size()), words_.push_back({piece.text});
    ++words_[slot].count;
  }
  const std::vector<Word>& words() const { return words_; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  uint32_t& find(std::string_view word) {
    const size_t mask = slots_.size() - 1;
    size_t at = hash_bytes(word) & mask;
    while (slots_[at] != kFree && words_[slots_[at]].text != word) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    slots_.assign(table_size(words_.size() + 1024) * 2, kFree);
    for (size_t i = 0; i < words_.size(); ++i) find(words_[i].text) = static_cast<uint32_t>(i);
  }

  std::vector<Word> words_;
  std::vector<uint32_t> slots_;
};

// GPT-2's words of the stretches between the matches of a pattern, and the matches.
class IsolatedWords : public text::PieceSink {
 public:
  IsolatedWords(const std::string& pattern, WordCounts& counts) : counts_(counts) {
    if (pattern.empty()) return;
    try {
      pattern_ = text::Pattern::parse(pattern, "train_bpe: isolate");
    } catch (const Error& error) {  // an option here, elsewhere a file's content
      throw Error(ErrorKind::kConfig, error.what());
    }
  }
  void add(std::string_view text) {
    const auto find = [this](std::string_view in, size_t from) -> text::Piece::Range {
      const text::Pattern::Match match = pattern_->find(in, from);
      return {match.begin, match.end};
    };
    text::split_by({text}, find, text::SplitBehavior::kIsolated, false, *this);
  }
  void take(const text::Piece& piece) override { text::split_gpt2(piece, counts_); }

 private:
  std::optional<text::Pattern> pattern_;
  WordCounts& counts_;
};

class BpeTrainer {
 public:
  explicit BpeTrainer(const BpeTrainingOptions& options) : options_(options) {
    for (const std::string& token : options.special_tokens) {
      FOVEA_CHECK_CONFIG(!token.empty(), "train_bpe: a special token is empty");
      check_utf8(token, "special token");
      FOVEA_CHECK_CONFIG(ids_.count(token) == 0, "train_bpe: the special token \"", token, "\" is given twice");
      add_token(token);
    }
    std::vector<std::pair<char32_t, uint8_t>> alphabet;
    for (int byte = 0; byte < 256; ++byte)
      alphabet.emplace_back(text::byte_character(static_cast<uint8_t>(byte)), static_cast<uint8_t>(byte));
    std::sort(alphabet.begin(), alphabet.end());
    for (const auto& [c, byte] : alphabet) {
      std::string spelling;
      append_utf8(spelling, c);
      byte_ids_[byte] = add_token(spelling);
    }
    FOVEA_CHECK_CONFIG(options.vocab_size >= static_cast<int64_t>(tokens_.size()), "train_bpe: vocab_size ",
                       options.vocab_size, " is below the ", tokens_.size(),
                       " of the special tokens and the 256 bytes");
  }

  void train(const std::vector<WordCounts::Word>& words) {
    count_pairs(words);
    while (static_cast<int64_t>(tokens_.size()) < options_.vocab_size && !queue_.empty()) {
      Candidate top = std::move(const_cast<Candidate&>(queue_.top()));  // popped at once
      queue_.pop();
      // Counts fall while a candidate waits: then it waits on with the true one.
      if (const int64_t count = counts_[top.pair]; count != top.count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (top.count < 1 || top.count < options_.min_frequency) break;
      merge(top);
    }
  }

  text::TokenizerFile file() && {
    text::TokenizerFile out;
    out.source = "byte-level BPE tokenizer";
    nlohmann::json& added = out.top["added_tokens"] = nlohmann::json::array();
    for (size_t i = 0; i < options_.special_tokens.size(); ++i)
      added.push_back(text::special_token_json(options_.special_tokens[i], static_cast<int64_t>(i)));
    out.top["pre_tokenizer"] = out.top["decoder"] = text::byte_level_json();
    if (!options_.isolate.empty()) {
      const nlohmann::json split = {
          {"type", "Split"}, {"pattern", {{"Regex", options_.isolate}}}, {"behavior", "Isolated"}, {"invert", false}};
      out.top["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, text::byte_level_json()}}};
    }
    out.top["model"] = {{"type", "BPE"}};
    for (const auto& [left, right] : merges_) out.tables.merges.emplace_back(tokens_[left], tokens_[right]);
    for (size_t id = 0; id < tokens_.size(); ++id)
      out.tables.vocab.emplace_back(std::move(tokens_[id]), static_cast<int64_t>(id));
    return out;
  }

 private:
  // A pair that may merge next, and the words that held it when it was queued.
  struct Candidate {
    int64_t count = 0;
    uint64_t pair = 0;
    std::vector<uint32_t> words;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  struct Word {
    std::vector<uint32_t> symbols;
    int64_t count;
  };

  uint32_t add_token(const std::string& token) {
    const auto [place, added] = ids_.emplace(token, static_cast<uint32_t>(tokens_.size()));
    if (added) tokens_.push_back(token);
    return place->second;
  }

  void count_pairs(const std::vector<WordCounts::Word>& words) {
    PairMap<std::vector<uint32_t>> holders;
    for (const WordCounts::Word& word : words) {
      const auto index = static_cast<uint32_t>(words_.size());
      words_.push_back({{}, word.count});
      auto& symbols = words_.back().symbols;
      for (const char byte : word.text) symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const uint64_t pair = pair_key(symbols[i], symbols[i + 1]);
        counts_[pair] += word.count;
        note(holders[pair], index);
      }
    }
    holders.for_each([&](uint64_t pair, std::vector<uint32_t>& list) { enqueue(pair, std::move(list)); });
  }

  static void note(std::vector<uint32_t>& holders, uint32_t word) {
    if (holders.empty() || holders.back() != word) holders.push_back(word);
  }

  void enqueue(uint64_t pair, std::vector<uint32_t> holders) {
    if (const int64_t count = counts_[pair]; count > 0) queue_.push({count, pair, std::move(holders)});
  }

  void merge(const Candidate& top) {
    const auto left = static_cast<uint32_t>(top.pair >> 32), right = static_cast<uint32_t>(top.pair);
    const uint32_t merged = add_token(tokens_[left] + tokens_[right]);
    merges_.emplace_back(left, right);
    std::unordered_map<uint64_t, std::vector<uint32_t>> fresh;  // pairs that this merge makes, and their words
    for (const uint32_t index : top.words) {
      Word& word = words_[index];
      merge_in(word.symbols, left, right, merged, [&](uint32_t a, uint32_t b, int64_t change) {
        const uint64_t pair = pair_key(a, b);
        counts_[pair] += change * word.count;
        if (change > 0) note(fresh[pair], index);
      });
    }
    for (auto& [pair, holders] : fresh) enqueue(pair, std::move(holders));
  }

  // Replaces the pair wherever it stands and reports pairs lost and won. In a run ("aaaa") the lost neighbours are
  // counted as the package counts them, merge by merge from the left.
  template <class OnChange>
  static void merge_in(std::vector<uint32_t>& symbols, uint32_t left, uint32_t right, uint32_t merged,
                       const OnChange& on_change) {
    size_t kept = 0;
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (i + 1 == symbols.size() || symbols[i] != left || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        on_change(symbols[kept - 1], left, -1);
        on_change(symbols[kept - 1], merged, 1);
      }
      if (i + 2 < symbols.size()) {
        on_change(right, symbols[i + 2], -1);
        on_change(merged, symbols[i + 2], 1);
      }
      symbols[kept++] = merged;
      ++i;
    }
    symbols.resize(kept);
  }

  const BpeTrainingOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  uint32_t byte_ids_[256] = {};
  std::vector<Word> words_;
  PairMap<int64_t> counts_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::pair<uint32_t, uint32_t>> merges_;
};

}  // namespace

Tokenizer train_bpe(const std::vector<std::string_view>& texts, const BpeTrainingOptions& options) {
  BpeTrainer trainer(options);
  WordCounts counts;
  IsolatedWords isolated(options.isolate, counts);
  for (size_t i = 0; i < texts.size(); ++i) {
    check_utf8(texts[i], "text " + std::to_string(i) + " to train a tokenizer on");
    options.isolate.empty() ? text::split_gpt2({texts[i]}, counts) : isolated.add(texts[i]);
  }
  FOVEA_CHECK_INPUT(!counts.words().empty(), "the text to train a tokenizer on is empty");
  trainer.train(counts.words());
  return text::make_tokenizer(std::move(trainer).file());
}

}  // namespace fovea
